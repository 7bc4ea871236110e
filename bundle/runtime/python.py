"""Runs one module of a tool. stdin: JSON {parameters, config, names}, or for a sink one line with the
config and then one event per line. The answer goes to a separate descriptor, because stdout
contains the text that the module prints."""
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
    # The module can import modules beside it by name, as if the file ran directly.
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


def named_parameters(function):
    """The parameters that a call can pass by name; None if a parameter is positional only."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is one.POSITIONAL_ONLY for one in found):
        return None
    return [one for one in found if one.kind is not one.VAR_POSITIONAL]


def by_name(function, given, names, config):
    """Arguments by name, if each required parameter of the function is one of `names` or `config`."""
    found = named_parameters(function)
    if found is None:
        return None
    takes_any = any(one.kind is one.VAR_KEYWORD for one in found)
    own = {one.name: one.default is not one.empty for one in found if one.kind is not one.VAR_KEYWORD}
    known = set(names)
    fits = all(has_default or name in known or name == "config" for name, has_default in own.items())
    is_meant = known & set(own) or (takes_any and not own)
    if not fits or not is_meant:
        return None
    wants_config = "config" in own and "config" not in known
    return {**given, "config": config} if wants_config else dict(given)


def takes_two(function):
    try:
        inspect.signature(function).bind(None, None)
        return True
    except TypeError:
        return False
    except ValueError:
        return True


async def settled(value):
    return await value if inspect.isawaitable(value) else value


async def run(function, first, config):
    return await settled(function(first, config) if takes_two(function) else function(first))


async def run_tool(function, given):
    parameters, config = given["parameters"], given["config"]
    named = by_name(function, parameters, given["names"], config)
    return await (run(function, parameters, config) if named is None else settled(function(**named)))


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
        value = asyncio.run(run_tool(function, given))
        outcome = value if is_outcome(value) else {"ok": True, "output": value}
        # NaN and Infinity are not JSON, and neither are objects of the module.
        return json.dumps(outcome, allow_nan=False)
    except Exception as error:  # a failure of the module is an answer, not a crash
        return json.dumps(describe(error))


# Fields of a sink's config that locate the module.
PLACES = ("module", "runtime", "function", "type")


def sink_class(module):
    """The class of the sink: the one in `config.function`, or the only one with `write`."""
    named = getattr(module, NAME, None) if NAME else None
    if inspect.isclass(named):
        return named
    own = [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == module.__name__]
    found = [one for one in own if callable(getattr(one, "write", None))]
    if NAME or not found or any(callable(getattr(module, name, None)) for name in ("write", "run", "execute")):
        return None
    if len(found) > 1:
        names = "`, `".join(one.__name__ for one in found)
        raise AttributeError("the module has several classes with `write`; name one of `%s` in `function`" % names)
    return found[0]


def make_sink(kind, config):
    """Creates an object of the class with those fields of the config for which it has parameters."""
    fields = {name: value for name, value in config.items() if name not in PLACES}
    found = named_parameters(kind) or []
    own = [one for one in found if one.kind is not one.VAR_KEYWORD]
    given = fields if len(own) < len(found) else {one.name: fields[one.name] for one in own if one.name in fields}
    missing = [one.name for one in own if one.default is one.empty and one.name not in given]
    if missing == ["config"]:
        return kind(**given, config=config)
    if missing:
        raise TypeError("`%s` needs `%s`; write it beside `type` of the destination" % (kind.__name__, "`, `".join(missing)))
    return kind(**given)


def takes_text(write):
    """A method without a type, or with `str`, gets the data of an event; any other gets the event."""
    found = named_parameters(write) or []
    return not found or found[0].annotation in (inspect.Parameter.empty, str, "str")


def open_sink(module, config):
    """The object that gets the events, and the function that takes one."""
    if hasattr(module, "create_sink"):
        owner = module.create_sink(config)
    else:
        kind = sink_class(module)
        if kind:
            owner = make_sink(kind, config)
            write = owner.write
            return owner, (lambda event: write(event.get("data", ""))) if takes_text(write) else write
        owner = module
    return owner, function_of(owner, [NAME] if NAME else ["write", "run", "execute"])


def tell(error):
    """One line with the location in the module and the error."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    place = "%s:%d: " % (os.path.basename(FILE), lines[-1]) if lines else ""
    print("%s%s: %s" % (place, type(error).__name__, error), file=sys.stderr)


async def sink():
    config = json.loads(sys.stdin.readline())["config"]
    owner, write = open_sink(load(), config)
    # One `+` for every event that was handled, one `-` for every one that failed.
    for line in sys.stdin:
        try:
            await run(write, json.loads(line), config)
            send("+")
        except Exception as error:
            tell(error)
            send("-")
    for name in ("flush", "close"):
        method = getattr(owner, name, None)
        if callable(method):
            await settled(method())


if MODE == "sink":
    try:
        asyncio.run(sink())
    except Exception as error:
        tell(error)
        sys.exit(1)
else:
    send(call())
sys.stdout.flush()
