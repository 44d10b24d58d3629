// HTTP server: node serve.js PORT. GET /NAME answers with that many bytes; PAUSE milliseconds before, SPLIT=1
// writes the body in small pieces without cork, NODELAY=0 leaves Nagle on, BURN milliseconds of the core
// before an answer.
const http = require("http");
const size = (name) => parseFloat(name) * ({ k: 1e3, M: 1e6 }[name.slice(-1)] || 1);
const env = (name, other) => Number(process.env[name] || other || 0);
const chunk = Buffer.alloc(65536, "x");
const server = http.createServer({ keepAliveTimeout: 60000, noDelay: env("NODELAY", 1) === 1 }, (request, response) => {
    request.resume();
    request.on("end", () => setTimeout(() => {
        const end = Date.now() + env("BURN");
        while (Date.now() < end);
        let owed = request.method === "GET" ? size(request.url.slice(1).split("?")[0]) : 2;
        response.setHeader("Content-Length", owed);
        const piece = env("PIECE", 65536);
        const write = () => {
            while (owed > 0) {
                const part = chunk.subarray(0, Math.min(owed, piece));
                owed -= part.length;
                if (!response.write(part)) { response.once("drain", write); return; }
            }
            response.end();
        };
        write();
    }, env("PAUSE")));
});
server.keepAliveTimeout = 60000;
server.listen(Number(process.argv[2]));
