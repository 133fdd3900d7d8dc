"""The child of `jq_process`: reads framed programs from standard input and answers them; imports nothing of ours."""

import json
import resource
import struct
import sys

sys.path[:0] = sys.argv[1:]
import jq  # noqa: E402

HEAD = struct.Struct(">I")
MOST_RESULTS = 10_000
MOST_BYTES = 16 * 1024 * 1024


def answer(message):
    try:
        program = jq.compile(message["program"])
        results = []
        for result in program.input_value(message["document"]):
            results.append(result)
            if len(results) > MOST_RESULTS:
                return {"error": f"the program has more than {MOST_RESULTS} results"}
        return {"results": results}
    except Exception as error:  # whatever jq raises is the user's to read
        return {"error": str(error).strip() or type(error).__name__}


def main():
    resource.setrlimit(resource.RLIMIT_AS, (512 * 1024 * 1024,) * 2)
    jq.compile("[.a, 1]").input_value({"a": 0}).all()  # whatever is loaded late is loaded now
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))  # standard streams only: no file can be opened any more
    while True:
        head = sys.stdin.buffer.read(HEAD.size)
        if len(head) < HEAD.size:
            return
        message = json.loads(sys.stdin.buffer.read(HEAD.unpack(head)[0]))
        usage = resource.getrusage(resource.RUSAGE_SELF)
        used = int(usage.ru_utime + usage.ru_stime)
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (used + message["seconds"] + 1, hard))
        body = json.dumps(answer(message)).encode()
        if len(body) > MOST_BYTES:
            body = json.dumps({"error": f"the result is larger than {MOST_BYTES} bytes"}).encode()
        sys.stdout.buffer.write(HEAD.pack(len(body)) + body)
        sys.stdout.buffer.flush()


main()
