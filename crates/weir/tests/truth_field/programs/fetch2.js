// HTTP/2 client: node fetch2.js URL. WINDOW bytes of stream and connection window (Node's own default is
// 65,535), REST milliseconds asleep for each piece that is read, COUNT answers one after the other.
const http2 = require("http2");
const env = (name, other) => Number(process.env[name] || other || 0);
const url = new URL(process.argv[2]);
const window = env("WINDOW", 65535);
const session = http2.connect(url.origin, { settings: { initialWindowSize: window } });
session.on("connect", () => { if (window > 65535) session.setLocalWindowSize(window); });
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const once = async () => {
    const stream = session.request({ ":path": url.pathname });
    for await (const piece of stream) if (env("REST")) await wait(env("REST"));
};
(async () => {
    for (let done = 0; done < env("COUNT", 1); done++) await once();
    session.close();
})();
