// The scripted provider in a process of its own, so that its CPU is not counted. Every conversation
// gets `turns` replies with one tool call each, then a final text.
import { startScriptedProvider } from '../src/llm/index.ts';

const turns = Number(process.argv[2] ?? 50);
const provider = await startScriptedProvider((request) => {
  // The first message of the assistant may be the injected call.
  const count = Math.max(0, request.assistant_messages - Number(process.argv[3] ?? 1));
  const usage = { input_tokens: 500, output_tokens: 20 };
  if (count >= turns) return { text: 'done', usage };
  return {
    tool_calls: [
      {
        name: 'execute',
        arguments: {
          item_type: 'tool',
          item_id: 'fs/read_file',
          parameters: { path: `notes/${count}.txt` },
        },
      },
    ],
    usage,
  };
});
if (!provider.ok) throw new Error(provider.error.detail.message);
process.stdout.write(`${provider.output.url}\n`);
process.stdin.on('end', () => void provider.output.close());
process.stdin.resume();
