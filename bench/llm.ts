// Measures the reader for a long reply against a loop that parses each event and joins the pieces, without checks or
// limits. A reply of ten times the length must cost about ten times as much.
import { createReader, type Protocol } from '@kernmantle/core/llm';
import { type BenchRow, race } from './row.ts';

const DELTAS = 20_000;
const PROTOCOLS = ['anthropic', 'openai'] as const;

interface Event {
  event?: string;
  data: string;
}

const anthropic = (index: number): Event => ({
  event: 'content_block_delta',
  data: `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"word ${index} "}}`,
});
const openai = (index: number): Event => ({
  data: `{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"word ${index} "}}]},"finish_reason":null}]}`,
});

const STREAMS = {
  anthropic: (count) => [
    {
      data: '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"execute","input":{}}}',
    },
    anthropicText('{\\"text\\":\\"'),
    ...Array.from({ length: count }, (_, index) => anthropic(index)),
    anthropicText('\\"}'),
    { data: '{"type":"content_block_stop","index":0}' },
    {
      data: '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}',
    },
    { data: '{"type":"message_stop"}' },
  ],
  openai: (count) => [
    openaiText('{\\"text\\":\\"', ',"id":"a"', '"name":"execute",'),
    ...Array.from({ length: count }, (_, index) => openai(index)),
    openaiText('\\"}'),
    { data: '{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}' },
    { data: '[DONE]' },
  ],
} satisfies Partial<Record<Protocol, (count: number) => Event[]>>;

function anthropicText(text: string): Event {
  const delta = `{"type":"input_json_delta","partial_json":"${text}"}`;
  return { data: `{"type":"content_block_delta","index":0,"delta":${delta}}` };
}

function openaiText(text: string, id = '', name = ''): Event {
  const call = `{"index":0${id},"function":{${name}"arguments":"${text}"}}`;
  return { data: `{"choices":[{"index":0,"delta":{"tool_calls":[${call}]}}]}` };
}

function read(protocol: Protocol, events: readonly Event[]): void {
  const reader = createReader(protocol);
  for (const event of events) reader.push(event);
  const reply = reader.end(true);
  if (!reply.ok || reply.output.content.length !== 1) throw new Error('the reply is not whole');
}

interface Delta {
  delta?: { partial_json?: string };
  choices?: { delta?: { tool_calls?: { function: { arguments: string } }[] } }[];
}

/** Performs the minimum work that every reader must do. */
function bare(events: readonly Event[]): void {
  let text = '';
  for (const { data } of events) {
    if (data === '[DONE]') break;
    const { delta, choices } = JSON.parse(data) as Delta;
    text += delta?.partial_json ?? choices?.[0]?.delta?.tool_calls?.[0]?.function.arguments ?? '';
  }
  JSON.parse(text);
}

async function rowsFor(protocol: (typeof PROTOCOLS)[number]): Promise<BenchRow[]> {
  const [short, long] = [STREAMS[protocol](DELTAS), STREAMS[protocol](10 * DELTAS)];
  const {
    ours = 0,
    base = 0,
    tenfold = 0,
  } = await race({
    ours: () => read(protocol, short),
    base: () => bare(short),
    tenfold: () => read(protocol, long),
  });
  return [
    {
      name: `a call of ${DELTAS} deltas, ${protocol}`,
      ours: ours / 1000,
      base: base / 1000,
      ratio: ours / base,
      unit: 'ms CPU',
      target: 'at most 2x parsing and joining',
      ok: ours <= 2 * base,
    },
    {
      name: `ten times the deltas, ${protocol}`,
      ours: tenfold / 1000,
      base: ours / 1000,
      ratio: tenfold / ours,
      unit: 'ms CPU',
      target: 'at most 12x',
      ok: tenfold <= 12 * ours,
    },
  ];
}

export async function bench(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const protocol of PROTOCOLS) rows.push(...(await rowsFor(protocol)));
  return rows;
}
