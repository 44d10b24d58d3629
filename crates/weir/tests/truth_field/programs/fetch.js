// HTTP client on one kept connection: node fetch.js HOST PORT NAME COUNT. THINK milliseconds between answers,
// POST bytes with each, SPLIT=1 writes them apart from the head, NODELAY=1, REST milliseconds asleep for each
// piece that is read.
const http = require("http");
const env = (name) => Number(process.env[name] || 0);
const [host, port, name, count] = process.argv.slice(2);
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const once = () => new Promise((done, fail) => {
    const post = env("POST");
    const headers = post ? { "Content-Length": post } : {};
    const request = http.request({ host, port, path: "/" + name, method: post ? "POST" : "GET", agent, headers }, async (response) => {
        for await (const piece of response) if (env("REST")) await wait(env("REST"));
        done();
    });
    request.on("socket", (socket) => socket.setNoDelay(env("NODELAY") === 1));
    request.on("error", fail);
    if (post && env("SPLIT")) {
        request.flushHeaders();
        const half = Buffer.alloc(post / 2, "y");
        request.write(half);
        setImmediate(() => request.end(half));
    } else request.end(post ? Buffer.alloc(post, "y") : undefined);
});
(async () => {
    for (let done = 0; done < Number(count); done++) {
        await once();
        if (env("THINK")) await wait(env("THINK"));
    }
    agent.destroy();
})();
