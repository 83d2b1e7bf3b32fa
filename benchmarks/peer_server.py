"""llama.cpp's own server in a process of its own: prints its address, and ends when its input is closed.

Apart from the caller because two builds of llama.cpp in one process could take each other's symbols.
"""

import argparse
import os
import sys

import xllamacpp


def main() -> None:
    """Serve one model on loopback."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--ctx", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--slot-folder", required=True, help="where a slot is saved when asked to")
    parser.add_argument("--draft", default="", help="a draft model")
    parser.add_argument("--draft-max", type=int, default=3, help="tokens that it drafts at a time")
    parser.add_argument("--ngram", action="store_true", help="draft from the chat itself")
    arguments = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    params.n_ctx, params.n_parallel, params.kv_unified = arguments.ctx, arguments.slots, True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    params.n_gpu_layers = 0
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.slot_save_path = f"{arguments.slot_folder}{os.sep}"  # it puts the name right behind it
    params.endpoint_slots, params.ui, params.fit_params = True, False, False
    params.verbosity = 0
    kinds = xllamacpp.common_speculative_type
    if arguments.draft:
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        draft = params.speculative.draft
        draft.mparams.path, draft.n_max, draft.n_gpu_layers = arguments.draft, arguments.draft_max, 0
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = arguments.threads
    if arguments.ngram:
        params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main()
