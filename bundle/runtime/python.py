"""Runs one module of a tool. stdin: JSON {parameters, config}, or for a sink one line with the
config and then one event per line. The answer goes to a descriptor of its own, so that anything the
module prints stays what it is: text on stdout."""
import asyncio
import importlib.util
import inspect
import json
import os
import re
import sys
import traceback

FILE, NAME, MODE, DESCRIPTOR = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
os.set_inheritable(DESCRIPTOR, False)


def send(text):
    data = text.encode("utf-8", "surrogatepass")
    while data:
        data = data[os.write(DESCRIPTOR, data):]


def load():
    # Modules beside this one can be imported by name, as when the file is run directly.
    sys.path.insert(0, os.path.dirname(FILE))
    spec = importlib.util.spec_from_file_location("tool_module", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tool_module"] = module
    spec.loader.exec_module(module)
    return module


def function_of(owner, names):
    for name in names:
        found = getattr(owner, name, None)
        if callable(found):
            return found
    raise AttributeError("the module has no function `%s`" % "` or `".join(names))


def takes_two(function):
    try:
        inspect.signature(function).bind(None, None)
        return True
    except TypeError:
        return False
    except ValueError:
        return True


async def run(function, first, config):
    value = function(first, config) if takes_two(function) else function(first)
    return await value if inspect.isawaitable(value) else value


def is_outcome(value):
    if not isinstance(value, dict):
        return False
    if value.get("ok") is True:
        return "output" in value
    error = value.get("error")
    return value.get("ok") is False and isinstance(error, dict) and isinstance(error.get("code"), str)


def describe(error):
    code = getattr(error, "code", None)
    named = isinstance(code, str) and re.fullmatch(r"[a-z][a-z_]*", code)
    message = str(error) or type(error).__name__
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    detail = {"message": message, "stack": trace[-4000:]}
    return {"ok": False, "error": {"code": code if named else "tool_failed", "detail": detail}}


def call():
    try:
        given = json.load(sys.stdin)
        function = function_of(load(), [NAME] if NAME else ["run", "execute"])
        value = asyncio.run(run(function, given["parameters"], given["config"]))
        outcome = value if is_outcome(value) else {"ok": True, "output": value}
        # NaN and Infinity are not JSON, and neither are objects of the module.
        return json.dumps(outcome, allow_nan=False)
    except Exception as error:  # the module's own failure is an answer, not a crash
        return json.dumps(describe(error))


async def sink():
    config = json.loads(sys.stdin.readline())["config"]
    module = load()
    owner = module.create_sink(config) if hasattr(module, "create_sink") else module
    write = function_of(owner, [NAME] if NAME else ["write", "run", "execute"])
    # One `+` for every event that was handled, one `-` for every one that failed.
    for line in sys.stdin:
        try:
            await run(write, json.loads(line), config)
            send("+")
        except Exception:
            traceback.print_exc()
            send("-")
    close = getattr(owner, "close", None)
    if close:
        ended = close()
        if inspect.isawaitable(ended):
            await ended


if MODE == "sink":
    asyncio.run(sink())
else:
    send(call())
sys.stdout.flush()
