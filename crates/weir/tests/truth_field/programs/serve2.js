// HTTP/2 server without TLS: node serve2.js PORT. Takes what is sent in and answers with two bytes; WINDOW bytes of
// stream and connection window (Node's own default is 65,535), REST milliseconds asleep for each piece that is read.
const http2 = require("http2");
const env = (name, other) => Number(process.env[name] || other || 0);
const window = env("WINDOW", 65535);
const server = http2.createServer({ settings: { initialWindowSize: window } });
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
server.on("session", (session) => { if (window > 65535) session.setLocalWindowSize(window); });
server.on("stream", async (stream) => {
    for await (const piece of stream) if (env("REST")) await wait(env("REST"));
    stream.respond({ ":status": 200, "content-length": 2 });
    stream.end("ok");
});
server.listen(Number(process.argv[2]));
