// Explains the decision about a call: verdict, gates in order, each argument with its labels and
// origin, the provenance of the value, and remedies.
import { useState } from 'preact/hooks';
import type { ArgumentView, EventDetail, Gate, LongText, ProvenanceView } from '../../model/api.ts';
import { bytes } from '../../model/format.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';
import { get, type PageAnswer } from '../api.ts';
import { ProvenanceGraph } from '../graph/provenance-graph.tsx';
import { Icon, type IconName } from '../parts/icons.tsx';
import { PiecesView } from '../parts/json-view.tsx';
import { LabelChips } from '../parts/labels.tsx';
import { ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { threadResource } from './place.ts';

const GATE_NAMES: Readonly<Record<Gate['stage'], string>> = {
  right: 'Right',
  limits: 'Limits',
  policy: 'Policy',
  run: 'Run',
};
const GATE_LOOKS: Readonly<Record<Gate['state'], readonly [icon: IconName, tone: string]>> = {
  passed: ['ok', 'ok'],
  refused: ['x', 'bad'],
  asks: ['ask', 'you'],
  failed: ['x', 'bad'],
  open: ['ask', ''],
  unknown: ['warn', 'you'],
  'not reached': ['dash', ''],
};

const GateLadder = ({ gates }: { gates: readonly Gate[] }) => (
  <ol class="gates" aria-label="Gates of this call, in order">
    {gates.map(({ stage, state, by }) => {
      const [icon, tone] = GATE_LOOKS[state];
      return (
        <li key={stage} class={state === 'not reached' ? 'off' : ''}>
          <span class={tone}>
            <Icon name={icon} />
            {GATE_NAMES[stage]}
            <span class="unseen"> {state}</span>
          </span>
          <small title={by}>
            <ForeignText text={by} />
          </small>
        </li>
      );
    })}
  </ol>
);

/** Table of arguments. A click on a name calls `onChoose`. A long argument shows its first part. */
function ArgumentTable(props: {
  arguments: readonly ArgumentView[];
  chosen?: string;
  onChoose?: (name: string) => void;
}) {
  const { arguments: args, chosen, onChoose } = props;
  if (args.length === 0) return <p class="faint">No arguments.</p>;
  return (
    <table class="args-t">
      <tbody>
        {args.map(({ name, text, bytes: size, is_cut: isCut, labels, origin }) => (
          <tr key={name}>
            <th scope="row">
              {onChoose ? (
                <button
                  type="button"
                  class="plain"
                  aria-pressed={chosen === name}
                  title="Show the provenance"
                  onClick={() => onChoose(name)}
                >
                  <ForeignText text={name} />
                </button>
              ) : (
                <ForeignText text={name} />
              )}
            </th>
            <td>
              <code>
                <ForeignText text={text} />
              </code>
              {isCut ? <small class="faint"> the first part of {bytes(size)}</small> : null}
            </td>
            <td>
              {labels.length > 0 ? <LabelChips taint={labels} /> : null}
              {origin === '' ? null : (
                <span class={labels.length > 0 ? 'origin faint' : 'label'}>{origin}</span>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Returns a loader of pieces of an event: of its content or of its raw JSON. */
export const loadPiece = (id: string, seq: number, field: 'content' | 'raw') => (offset: number) =>
  get<EventDetail>(threadResource(id, `/events/${seq}?offset=${offset}`)).then(
    (answer): PageAnswer<LongText> =>
      answer.ok ? { ok: true, output: answer.output[field] ?? answer.output.raw } : answer,
  );

export function Provenance(props: {
  id: string;
  seq: number;
  argument: string | undefined;
  onSelect: (seq: number) => void;
}) {
  const { id, seq, argument, onSelect } = props;
  const query = argument === undefined ? '' : `&argument=${encodeURIComponent(argument)}`;
  const { answer, again } = useResource<ProvenanceView>(
    threadResource(id, `/provenance?seq=${seq}${query}`),
  );
  if (!answer) return <LoadingRows rows={3} rowHeight={32} />;
  if (!answer.ok) return <ErrorState error={answer.error} again={again} />;
  if (answer.output.nodes.length === 0) {
    return <p class="faint">No other value went into it.</p>;
  }
  return <ProvenanceGraph provenance={answer.output} onSelect={onSelect} focus={seq} />;
}

function Result({ id, row }: { id: string; row: TimelineEntry }) {
  const seq = row.result;
  const { answer, again } = useResource<EventDetail>(
    seq === undefined ? undefined : threadResource(id, `/events/${seq}`),
  );
  if (seq === undefined) return null;
  if (!answer) return <LoadingRows rows={2} />;
  if (!answer.ok) return <ErrorState error={answer.error} again={again} />;
  const { content } = answer.output;
  return content ? (
    <PiecesView
      first={content}
      load={loadPiece(id, seq, 'content')}
      author={`Result of ${row.name}`}
      labels={row.labels}
    />
  ) : (
    <p class="faint">No content.</p>
  );
}

const TONES: Readonly<Partial<Record<TimelineEntry['state'], string>>> = {
  denied: 'bad',
  failed: 'bad',
  waits: 'you',
  unknown: 'you',
  open: 'run',
};

/** Shows the outcome, such as `Denied before anything was done.`, its reason, and the gates. */
function Verdict({ detail, row }: { detail: EventDetail; row: TimelineEntry }) {
  const { verdict, why, gates } = detail;
  if (verdict === undefined && !gates) return null;
  return (
    <div class={`verdict ${TONES[row.state] ?? 'ok'}`}>
      {verdict === undefined ? null : <b>{verdict.replace(/\.?$/, '.')}</b>}
      {why === undefined ? null : (
        <p>
          <ForeignText text={why} />
        </p>
      )}
      {gates && gates.length > 0 ? <GateLadder gates={gates} /> : null}
    </div>
  );
}

/** List of remedies, one line each. */
export const Ways = ({ ways }: { ways: readonly string[] }) => (
  <ul class="ways">
    {ways.map((way) => (
      <li key={way}>
        <Icon name="way" />
        <ForeignText text={way} />
      </li>
    ))}
  </ul>
);

export function Decision(props: {
  id: string;
  row: TimelineEntry;
  detail: EventDetail;
  onSelect: (seq: number) => void;
}) {
  const { id, row, detail, onSelect } = props;
  const isDecided = row.state === 'denied' || row.state === 'waits' || row.denials.length > 0;
  const [argument, setArgument] = useState<string>();
  const [isAsked, setAsked] = useState(isDecided);
  const args = detail.arguments ?? [];
  const size = args.reduce((sum, one) => sum + one.bytes, 0);
  const subject = row.denials.at(-1) ?? row.seq;
  return (
    <>
      <Verdict detail={detail} row={row} />
      <div class="sect">
        <h3>
          Arguments <small>exact, as text</small>
          <span class="faint end">{bytes(size)}</span>
        </h3>
        <ArgumentTable
          arguments={args}
          {...(argument === undefined ? {} : { chosen: argument })}
          onChoose={(name) => {
            setArgument(name === argument ? undefined : name);
            setAsked(true);
          }}
        />
      </div>
      {row.result === undefined || row.state === 'denied' ? null : (
        <div class="sect">
          <h3>Result</h3>
          <Result id={id} row={row} />
        </div>
      )}
      <div class="sect">
        <h3>
          Provenance <small>{argument === undefined ? '' : argument}</small>
          {isAsked ? null : (
            <button type="button" class="more-link" onClick={() => setAsked(true)}>
              Show <kbd>G</kbd>
            </button>
          )}
        </h3>
        {isAsked ? (
          <Provenance id={id} seq={subject} argument={argument} onSelect={onSelect} />
        ) : null}
      </div>
      {detail.ways && detail.ways.length > 0 ? (
        <div class="sect">
          <h3>Remedies</h3>
          <Ways ways={detail.ways} />
        </div>
      ) : null}
    </>
  );
}
