#!/usr/bin/env bash
# Starts vLLM servers that make the replies of online RL, one for each group of GPUs, and stops them together on Ctrl-C.
#   deploy/vllm_rollouts.sh PRESET CHECKPOINT [SERVERS]
# PRESET: 2b, 8b or 30b-a3b (which published model the servers start as; the learner's weights come with its first
# update). CHECKPOINT: the folder that online RL starts from (its preprocessor_config.json tells the size of pictures).
# GPUs are taken from $VLLM_FIRST_GPU (0) on, $VLLM_GPUS_EACH for each server (1; 30b-a3b: 2). Ports from $VLLM_PORT
# (8000) on, on $VLLM_HOST (127.0.0.1). Further arguments for `vllm serve` go into $VLLM_ARGS.
# The endpoints that change weights ask for no key: keep $VLLM_HOST on a network that only the learner reaches.
set -euo pipefail

usage() { sed -n '3,3p' "$0" >&2; exit 2; }
preset="${1:-}" checkpoint="${2:-}" servers="${3:-1}"
[[ -n "$preset" && -n "$checkpoint" ]] || usage
each="${VLLM_GPUS_EACH:-1}" extra=()
case "$preset" in
  2b) model=Qwen/Qwen3-VL-2B-Instruct ;;
  8b) model=Qwen/Qwen3-VL-8B-Instruct ;;
  30b-a3b) model=Qwen/Qwen3-VL-30B-A3B-Instruct each="${VLLM_GPUS_EACH:-2}" extra=(--enable-expert-parallel) ;;
  *) echo "expected the preset 2b, 8b or 30b-a3b, found '$preset'" >&2; exit 2 ;;
esac
[[ "$servers" =~ ^[1-9][0-9]*$ ]] || { echo "expected a number of servers, found '$servers'" >&2; exit 2; }
pictures="$checkpoint/preprocessor_config.json"
[[ -f "$pictures" ]] || { echo "$checkpoint: expected a checkpoint folder with preprocessor_config.json" >&2; exit 2; }
vllm="${VLLM:-.venv-serve/bin/vllm}"
[[ -x "$vllm" ]] || { echo "$vllm isn't there: 'make serve MODEL=$model' installs it, or set VLLM to another" >&2; exit 2; }
size="$(python3 -c 'import json, sys
print(json.dumps({"images_kwargs": {"size": json.load(open(sys.argv[1]))["size"]}}))' "$pictures")"
host="${VLLM_HOST:-127.0.0.1}" port="${VLLM_PORT:-8000}" gpu="${VLLM_FIRST_GPU:-0}"

running=()
stop() { trap - EXIT; [[ ${#running[@]} -eq 0 ]] || kill "${running[@]}" 2>/dev/null || true; wait; }
trap stop EXIT
trap 'exit 130' INT TERM

endpoints=""
for ((number = 0; number < servers; number++)); do
  gpus="$(seq -s, $((gpu + number * each)) $((gpu + (number + 1) * each - 1)))"
  CUDA_VISIBLE_DEVICES="$gpus" VLLM_SERVER_DEV_MODE=1 "$vllm" serve "$model" \
    --host "$host" --port $((port + number)) --tensor-parallel-size "$each" --dtype bfloat16 \
    --enable-scale-out --logprobs-mode processed_logprobs --generation-config vllm \
    --limit-mm-per-prompt '{"image": 1, "video": 0}' --mm-processor-kwargs "$size" --max-model-len 10240 \
    --weight-transfer-config '{"backend": "nccl"}' "${extra[@]}" ${VLLM_ARGS:-} &
  running+=($!)
  endpoints+="${endpoints:+,}http://$host:$((port + number))"
done
echo "export VESPER_VLLM_ENDPOINTS=$endpoints"
wait -n || true  # a server that ends takes the others with it
echo "a vLLM server has ended; the others are stopped" >&2
exit 1
