// Rights of a thread and their use: each right with uses and refusals, each refusal with the
// line that would allow it, and every rule in force with its origin.
import type { DataObject, EventDetail, RightUse, ThreadView } from '../../model/api.ts';
import { count, rightWords, seconds } from '../../model/format.ts';
import { isRefused } from '../../model/thread-sums.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';
import { now, Time } from '../parts/figures.tsx';
import { Icon } from '../parts/icons.tsx';
import { EmptyState, useResource } from '../parts/states.tsx';
import { Facts, Table } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { usesText } from './answers.tsx';
import { Ways } from './decision.tsx';
import { listAt, shortHash, textAt } from './header.tsx';
import { threadResource } from './place.ts';

const SHOWN_REFUSALS = 30;

/** State of a right, unless the numbers beside it already show it. */
const stateOf = (right: RightUse): string => {
  if (right.state !== 'approved') {
    if (right.state === 'unused' && right.refused > 0) return 'refused';
    return right.state === 'used' ? '' : right.state;
  }
  const until =
    right.until === undefined
      ? ''
      : `, ${right.until > now.value ? `ends in ${seconds(Math.round((right.until - now.value) / 1000))}` : 'ended'}`;
  return `approved${right.by === undefined ? '' : ` by ${right.by}`}${until}`;
};

function Granted({ rights }: { rights: readonly RightUse[] }) {
  if (rights.length === 0) return <p class="faint">No right is granted: every call is refused.</p>;
  return (
    <Table
      class="plain-table"
      columns={[['right'], ['scope'], ['used', 'num'], ['refused', 'num'], ['state']]}
      rows={rights.map((right) => {
        const [, tone] = usesText(right);
        const [name, of] = rightWords(right);
        const { uses, refused, capped = [] } = right;
        return {
          key: `${name} ${of}`,
          class: uses === 0 ? 'unused' : '',
          cells: [
            <code>{name}</code>,
            <>
              <code>
                <ForeignText text={of} />
              </code>
              {capped.map((cap) => (
                <div key={cap} class="limit">
                  removed by policy: <ForeignText text={cap} />
                </div>
              ))}
            </>,
            uses > 0 ? `${count(uses)}×` : '–',
            refused > 0 ? <span class="bad">{count(refused)}</span> : '–',
            <span class={tone}>{stateOf(right)}</span>,
          ],
        };
      })}
    />
  );
}

function Refusal(props: { id: string; row: TimelineEntry; onSelect: (seq: number) => void }) {
  const { id, row, onSelect } = props;
  const seq = row.denials.at(-1) ?? row.seq;
  const { answer } = useResource<EventDetail>(threadResource(id, `/events/${seq}`));
  const ways = answer?.ok ? (answer.output.ways ?? []) : [];
  const why = answer?.ok ? answer.output.why : undefined;
  return (
    <li class="refused-call">
      <button type="button" class="plain is-bad" onClick={() => onSelect(seq)}>
        <Icon name="no" />
        <code>{row.name}</code>
        <ForeignText text={row.target ?? row.text} class="cut mono dim" />
        <span class="why">{row.why === '' ? 'denied' : row.why}</span>
      </button>
      {why === undefined ? null : <ForeignText text={why} class="dim" />}
      {ways.length > 0 ? <Ways ways={ways} /> : null}
    </li>
  );
}

/** Shows if an item is unchanged, `changed` or `gone` since the thread ran. */
const Since = ({ of }: { of: DataObject }) => {
  const now = textAt(of, 'now');
  if (now === '') return null;
  return <span class={now === 'same' ? 'faint' : 'you'}>{now === 'same' ? 'unchanged' : now}</span>;
};

function InForce({ ran }: { ran: DataObject }) {
  const [items, policies] = [listAt(ran, 'items'), listAt(ran, 'policies')];
  const [guards, rules] = [listAt(ran, 'guards'), listAt(ran, 'rules')];
  const line = (key: string, name: string, about: string, of: DataObject) => (
    <li key={key}>
      <code>
        <ForeignText text={name} />
      </code>
      <span class="dim">
        <ForeignText text={about} />
      </span>
      <Since of={of} />
    </li>
  );
  return (
    <>
      <div class="sect">
        <h3>Items that ran</h3>
        <ul class="in-force">
          {items.map((item) =>
            line(
              textAt(item, 'id'),
              textAt(item, 'id'),
              [textAt(item, 'source'), textAt(item, 'signature'), shortHash(textAt(item, 'sha256'))]
                .filter(Boolean)
                .join(' · '),
              item,
            ),
          )}
        </ul>
      </div>
      <div class="sect">
        <h3>
          Policies and rules in force <small>strongest first</small>
        </h3>
        <ul class="in-force">
          {policies.map((policy) =>
            line(
              textAt(policy, 'file'),
              textAt(policy, 'file'),
              `${textAt(policy, 'level')}${policy['signed'] === true ? ', signed' : ''}`,
              policy,
            ),
          )}
          {guards.map((guard, index) =>
            line(`guard ${index}`, textAt(guard, 'on'), `guard of ${textAt(guard, 'from')}`, guard),
          )}
          {rules.map((rule) =>
            line(
              textAt(rule, 'name'),
              textAt(rule, 'name'),
              `rule, ${textAt(rule, 'state')}`,
              rule,
            ),
          )}
        </ul>
        {policies.length + guards.length + rules.length === 0 ? (
          <p class="faint">None are recorded.</p>
        ) : null}
      </div>
    </>
  );
}

export function RightsTab(props: {
  view: ThreadView;
  rows: readonly TimelineEntry[];
  onSelect: (seq: number) => void;
}) {
  const { view, rows, onSelect } = props;
  const refused = rows.filter(isRefused);
  const { thread, ran } = view;
  return (
    <div class="sheet-body stack" tabIndex={0} role="region" aria-label="Rights in detail">
      <div class="sect">
        <h3>
          Granted <small>at the start, and approved since; everything else is refused</small>
        </h3>
        <Granted rights={view.rights} />
      </div>
      <div class="sect">
        <h3>
          Refused <small>{count(refused.length)}</small>
        </h3>
        {refused.length === 0 ? <p class="faint">No call was refused.</p> : null}
        <ul class="refusals">
          {refused.slice(0, SHOWN_REFUSALS).map((row) => (
            <Refusal key={row.seq} id={thread.id} row={row} onSelect={onSelect} />
          ))}
        </ul>
        {refused.length > SHOWN_REFUSALS ? (
          <p class="faint">The first {SHOWN_REFUSALS}; the filter of the timeline shows all.</p>
        ) : null}
      </div>
      {textAt(ran, 'note') === '' ? (
        <InForce ran={ran} />
      ) : (
        <EmptyState title="Not recorded" hint={textAt(ran, 'note')} />
      )}
      <Facts
        facts={[
          ['sandbox', textAt(ran, 'sandbox')],
          ['provider', textAt(ran, 'provider')],
          ['started', <Time at={thread.created} form="exact" />],
        ]}
      />
    </div>
  );
}
