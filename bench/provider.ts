// Runs the scripted provider in its own process, so that its CPU does not count. A conversation whose first message
// contains `turns_N` gets N replies with one tool call each, then a final text. `deltas_N` gets its text in N pieces at
// once. `talks_N` is like `turns_N` at the pace of a model: each reply starts late and arrives in pieces.
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

/** Delays a reply: 50 to 200 ms until its start, and about the same until its end. */
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
    // The harness injects an assistant message. The bare loop does not.
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
