// The scripted provider in a process of its own, so that its CPU is not counted. A conversation whose
// first message names `turns_N` gets N replies with one tool call each, then a final text; one that
// names `deltas_N` gets its text in N pieces at once. `talks_N` is as `turns_N`, at the pace of a model:
// every reply takes a while to begin, says some sentences and comes piece by piece.
import { type ScriptedReply, startScriptedProvider } from '@kernmantle/core/llm';

const usage = { input_tokens: 500, output_tokens: 20 };

const readNote = (note: number): ScriptedReply => ({
  tool_calls: [
    {
      name: 'execute',
      arguments: {
        item_type: 'tool',
        item_id: 'fs/read_file',
        parameters: { path: `notes/${note}.txt` },
      },
    },
  ],
  usage,
});

const PIECE = 'ten bytes.';

const SAID =
  'I read the next note before I go on, because what it says decides what comes after it. ';

/** 50 to 200 ms until it begins; about as long again until all of it is there. */
const slowly = (reply: ScriptedReply, turn: number): ScriptedReply => ({
  text: SAID.repeat(5),
  ...reply,
  delay_ms: 50 + ((turn * 67) % 150),
  pace_ms: 10,
  piece: 80,
});

const provider = await startScriptedProvider(
  ({ body, assistant_messages }) => {
    const [first] = body['messages'] as unknown[];
    const [, kind, figure] = /(turns|talks|deltas)_(\d+)/.exec(JSON.stringify(first)) ?? [];
    const count = Number(figure);
    if (kind === 'deltas') return { text: PIECE.repeat(count), piece: PIECE.length, usage };
    // The harness injects a message of the assistant, a bare loop does not.
    const injected = 'tools' in body ? 1 : 0;
    const done = assistant_messages - injected;
    const reply = done < count ? readNote(done) : { text: 'done', usage };
    return kind === 'talks' ? slowly(reply, done) : reply;
  },
  { keep: 1 },
);
if (!provider.ok) throw new Error(provider.error.detail.message);
process.stdout.write(`${provider.output.url}\n`);
process.stdin.on('end', () => void provider.output.close());
process.stdin.resume();
