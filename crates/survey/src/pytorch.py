"""Says what this Python's PyTorch can do: one line on standard output, behind whatever importing it prints."""

import sys

# `python -c` looks for modules in the working folder first: a file there must not stand in for torch or json.
sys.path[:] = [folder for folder in sys.path if folder]

import json  # noqa: E402


def about():
    """What is known of this Python, and of torch where it can be imported."""
    found = {"python": sys.version.split()[0], "executable": sys.executable}
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name == "torch":
            found["missing"] = str(error)
        else:
            found["broken"] = str(error)
        return found
    except Exception as error:  # a torch that is broken may raise anything
        found["broken"] = f"{type(error).__name__}: {error}"
        return found
    found["torch"] = str(torch.__version__)
    found["cuda"] = torch.version.cuda
    found["hip"] = getattr(torch.version, "hip", None)
    found["devices"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
    found["distributed"] = torch.distributed.is_available()
    if found["distributed"]:
        found["backends"] = [
            name
            for name in ("gloo", "nccl", "mpi", "ucc")
            if getattr(torch.distributed, f"is_{name}_available", lambda: False)()
        ]
    return found


print("\nrankmark-probe " + json.dumps({"ok": about()}), flush=True)
