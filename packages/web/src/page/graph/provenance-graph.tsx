// Draws the provenance of a value: sources at the top, the refusal or the value at the bottom. Red
// marks the label that decided, amber and dashed untrusted data, grey the rest. All names are
// untrusted and become text nodes. A list has the same content, for screen readers and for copying.
import { useMemo, useState } from 'preact/hooks';
import type { ProvenanceView } from '../../model/api.ts';
import { type LayeredGraph, layerGraph } from '../../model/layer-graph.ts';
import { type StepBox, stepGraph, stepLines } from '../../model/provenance-steps.ts';
import { visibleText } from '../../model/untrusted-text.ts';
import { CopyButton } from '../parts/copy.tsx';
import { BehindDrawing, usePlaceWidth } from './drawing.tsx';

const FIRST = 60;
const MORE = 40;
const HEIGHT = 32;
const LINES = 500;
const [NAME_SIGN, DETAIL_SIGN, PAD] = [6.6, 5.7, 9];
/** Width of the note `refused here`. */
const NOTE = 88;
const [LEAST, MOST] = [84, 236];

const cut = (text: string, max: number): string =>
  text.length > max ? `${text.slice(0, Math.max(1, max - 1))}…` : text;

const visibleBox = (box: StepBox): StepBox => ({
  ...box,
  name: visibleText(box.name),
  detail: visibleText(box.detail),
});

/** Width of a box: enough for its text, within bounds. */
function widthOf({ name, detail, kind }: StepBox, room: number): number {
  const note = kind === 'end' ? NOTE : 0;
  const words = Math.max(name.length * NAME_SIGN + note, detail.length * DETAIL_SIGN);
  const most = Math.min(room, kind === 'end' ? Math.max(MOST, room * 0.8) : MOST);
  return Math.ceil(Math.min(most, Math.max(LEAST, words + PAD * 2)) + 1);
}

interface Drawn extends StepBox {
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

function Box(props: { box: Drawn; isRefusal: boolean; isFocus: boolean; act?: () => void }) {
  const { box, isRefusal, isFocus, act } = props;
  const { x, y, width, kind, name, detail } = box;
  const isRefused = kind === 'end' && isRefusal;
  const room = width - PAD * 2 - (isRefused ? NOTE : 0);
  // The accessible name equals the visible text, so that speech control can address the box.
  const says = [name, detail, isRefused ? 'refused here' : ''].filter(Boolean).join(' ');
  const shortName = cut(name, Math.floor(room / NAME_SIGN));
  const shortDetail = cut(detail, Math.floor((width - PAD * 2) / DETAIL_SIGN));
  const tone = kind === 'end' && !isRefusal ? 'end-plain' : kind;
  const button = act
    ? {
        role: 'button' as const,
        tabIndex: 0,
        onClick: act,
        onKeyDown: (event: KeyboardEvent) => {
          if (event.key !== 'Enter' && event.key !== ' ') return;
          event.preventDefault();
          act();
        },
      }
    : {};
  return (
    <g class={`box ${tone} ${isFocus ? 'focus' : ''} ${act ? 'acts-on' : ''}`} {...button}>
      <title>{kind === 'fold' ? `${says}, unfold` : says}</title>
      <rect x={x + 0.5} y={y + 0.5} width={width - 1} height={HEIGHT - 1} rx="5" />
      <text class="m" x={x + PAD} y={y + (detail === '' ? 20 : 13.5)}>
        {shortName}
      </text>
      {detail === '' ? null : (
        <text class="s" x={x + PAD} y={y + 25.5}>
          {shortDetail}
        </text>
      )}
      {isRefused ? (
        <text class="note" x={x + width - PAD} y={y + 13.5} text-anchor="end">
          refused here
        </text>
      ) : null}
    </g>
  );
}

function Drawing(props: {
  graph: LayeredGraph;
  boxes: readonly StepBox[];
  isRefusal: boolean;
  focus: number | undefined;
  actOf: (box: StepBox) => (() => void) | undefined;
}) {
  const { graph, boxes, isRefusal, focus, actOf } = props;
  const byId = new Map(boxes.map((box) => [box.id, box]));
  const order = { cold: 0, warm: 1, hot: 2 };
  const edges = graph.edges
    .map((edge) => ({ ...edge, tone: byId.get(edge.from)?.tone ?? ('cold' as const) }))
    .sort((a, b) => order[a.tone] - order[b.tone]);
  return (
    <svg
      class="graph prov-graph"
      width={graph.width}
      height={graph.height}
      viewBox={`0 0 ${graph.width} ${graph.height}`}
      style={{ width: `${graph.width}px`, height: `${graph.height}px` }}
      role="group"
      aria-label="Provenance, sources first; the list below has the same content"
    >
      {edges.map(({ from, to, path, tone }) => (
        <path key={`${from} ${to}`} class={tone} d={path} />
      ))}
      {graph.nodes.map(({ id, x, y, width }) => {
        const box = byId.get(id);
        if (!box) return null;
        const act = actOf(box);
        return (
          <Box
            key={id}
            box={{ ...box, x, y, width }}
            isRefusal={isRefusal}
            isFocus={focus !== undefined && box.seq === focus}
            {...(act ? { act } : {})}
          />
        );
      })}
    </svg>
  );
}

interface Nested {
  readonly text: string;
  readonly inner: Nested[];
}

function nested(lines: readonly { depth: number; text: string }[]): Nested[] {
  const top: Nested[] = [];
  const stack: Nested[][] = [top];
  for (const { depth, text } of lines) {
    const level = Math.min(depth, stack.length - 1);
    const node: Nested = { text, inner: [] };
    stack[level]?.push(node);
    stack.splice(level + 1, stack.length, node.inner);
  }
  return top;
}

const Branch = ({ nodes }: { nodes: readonly Nested[] }) => (
  <ul>
    {nodes.map(({ text, inner }, index) => (
      <li key={index}>
        <code>{visibleText(text)}</code>
        {inner.length > 0 ? <Branch nodes={inner} /> : null}
      </li>
    ))}
  </ul>
);

function ListOfSteps({ provenance }: { provenance: ProvenanceView }) {
  const lines = useMemo(() => stepLines(provenance, LINES), [provenance]);
  const text = lines
    .map((line) => `${'  '.repeat(line.depth)}${visibleText(line.text)}\n`)
    .join('');
  return (
    <>
      <Branch nodes={nested(lines)} />
      <CopyButton text={text} label="Copy the list" />
    </>
  );
}

/** `onSelect` gets the event of a clicked box. `focus` is the selected event. */
export function ProvenanceGraph(props: {
  provenance: ProvenanceView;
  onSelect?: (seq: number) => void;
  focus?: number;
}) {
  const { provenance, onSelect, focus } = props;
  const [place, room] = usePlaceWidth(450);
  const [isWhole, setWhole] = useState(false);
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set<number>());
  const [limit, setLimit] = useState(FIRST);
  const steps = useMemo(() => {
    const { boxes, ...rest } = stepGraph(provenance, { isWhole, opened, limit });
    return { ...rest, boxes: boxes.map(visibleBox) };
  }, [provenance, isWhole, opened, limit]);
  const graph = useMemo(() => {
    const nodes = steps.boxes.map((box) => ({ ...box, width: widthOf(box, room) }));
    return layerGraph(nodes, { maxWidth: room, nodeHeight: HEIGHT, gapX: 10, gapY: 18 });
  }, [steps, room]);
  const actOf = ({ kind, opens, seq }: StepBox): (() => void) | undefined => {
    if (kind === 'fold' && opens !== undefined) return () => setOpened(new Set([...opened, opens]));
    return seq === undefined || !onSelect ? undefined : () => onSelect(seq);
  };
  const isRefusal = provenance.refusal !== null && provenance.refusal !== undefined;
  return (
    <div class="prov">
      <p class="prov-head small flex faint">
        <span>
          {steps.shown === steps.total ? '' : `${steps.shown} of `}
          {steps.total} {steps.total === 1 ? 'operation' : 'operations'}
        </span>
        {steps.shown < steps.total || isWhole ? (
          <button
            type="button"
            class="chip"
            aria-pressed={isWhole}
            onClick={() => setWhole(!isWhole)}
          >
            Show the whole graph
          </button>
        ) : null}
        {steps.more > 0 ? (
          <button type="button" class="chip" onClick={() => setLimit(limit + MORE)}>
            Show {Math.min(MORE, steps.more)} more
          </button>
        ) : null}
      </p>
      <div class="prov-place" ref={place}>
        <Drawing
          graph={graph}
          boxes={steps.boxes}
          isRefusal={isRefusal}
          focus={focus}
          actOf={actOf}
        />
      </div>
      <BehindDrawing title="Show as a list" class="prov-list small">
        {() => <ListOfSteps provenance={provenance} />}
      </BehindDrawing>
    </div>
  );
}
