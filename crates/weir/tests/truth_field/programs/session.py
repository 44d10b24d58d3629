"""One session of Python's http.client: session.py HOST PORT NAME COUNT. Answers are read whole, one after the other;
THINK seconds asleep between them, KEEP=0 opens a connection for each."""
import http.client, os, sys, time

think, keep = float(os.environ.get("THINK") or 0), os.environ.get("KEEP") != "0"
session = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
for _ in range(int(sys.argv[4])):
    session.request("GET", "/" + sys.argv[3])
    session.getresponse().read()
    if not keep:
        session.close()
    time.sleep(think)
