// Scripts of the project: the document with the outcome of each line in its margin, a run with a
// payload, its effects and outcome, and the provenance of a refusal.
import { useState } from 'preact/hooks';
import type { Data, ListedScript, ScriptDocument, ScriptList } from '../../model/api.ts';
import { bytes, shellWord } from '../../model/format.ts';
import { type PageFault, post } from '../api.ts';
import { connection } from '../connection.ts';
import { ProvenanceGraph } from '../graph/provenance-graph.tsx';
import { useKeys } from '../keys.ts';
import { Button } from '../parts/button.tsx';
import { Command } from '../parts/copy.tsx';
import { Icon } from '../parts/icons.tsx';
import { LabelChips } from '../parts/labels.tsx';
import { EmptyState, ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { go, Link, pathOf, route } from '../router.tsx';
import { may } from '../state/session.ts';

type ScriptRun = NonNullable<ScriptDocument['run']>;

const ScriptRow = ({ script, current }: { script: ListedScript; current: boolean }) => (
  <li>
    <Link to={pathOf('scripts', script.id)} class="pick" current={current}>
      <Icon name="read" class="faint" />
      <ForeignText text={script.id} class="mono cut" />
      <span />
      <span class="faint n">{bytes(script.bytes)}</span>
    </Link>
  </li>
);

/** Outcome of each line: an effect, or the fault that stopped the run. */
function outcomesOf(run: ScriptRun | undefined): Map<number, 'ok' | 'bad'> {
  const lines = new Map<number, 'ok' | 'bad'>();
  for (const { line } of run?.effects ?? []) if (line !== null) lines.set(line, 'ok');
  if (run?.fault?.line !== undefined) lines.set(run.fault.line, 'bad');
  return lines;
}

const MAX_LINES = 5000;

function Document({ view, run }: { view: ScriptDocument; run: ScriptRun | undefined }) {
  const outcomes = outcomesOf(run);
  const all = view.document.replace(/\n$/, '').split('\n');
  const labels = run?.provenance?.labels ?? [];
  return (
    <ol class="document" aria-label="Document">
      {all.slice(0, MAX_LINES).map((text, index) => {
        const outcome = outcomes.get(index + 1);
        return (
          <li key={index} class={outcome === 'bad' ? 'is-bad' : ''}>
            <span class="no" aria-hidden="true">
              {index + 1}
            </span>
            <ForeignText text={text} class="mono" />
            <span class={`out ${outcome ?? ''}`}>
              {outcome === undefined ? null : (
                <Icon
                  name={outcome === 'ok' ? 'ok' : 'no'}
                  label={outcome === 'ok' ? 'done' : 'stopped here'}
                />
              )}
              {outcome === 'bad' ? <LabelChips taint={labels} /> : null}
            </span>
          </li>
        );
      })}
      {all.length > MAX_LINES ? <li class="faint">{all.length - MAX_LINES} more lines</li> : null}
    </ol>
  );
}

function Effects({ run }: { run: ScriptRun }) {
  const { effects, fault, provenance, outcome, exit_code: code } = run;
  const isGood = code === 0;
  return (
    <div class="effects">
      <p class={isGood ? 'ok' : 'bad'}>
        <Icon name={isGood ? 'ok' : 'no'} /> <b>{outcome}</b> <span class="dim">exit {code}</span>
      </p>
      <ul class="lines">
        {effects.map((effect, index) => (
          <li key={index}>
            <span class="dim">{effect.kind}</span>
            <span>
              <ForeignText text={effect.text} class="mono" />
              {effect.target === undefined ? null : (
                <ForeignText text={` → ${effect.target}`} class="mono" />
              )}
            </span>
            <span class="from">
              <LabelChips taint={effect.labels} />{' '}
              <span class="faint">{effect.line === null ? '' : `line ${effect.line}`}</span>
            </span>
          </li>
        ))}
      </ul>
      {effects.length === 0 ? <p class="faint">The script had no effects.</p> : null}
      {run.has_more ? <p class="faint">More effects exist than are listed.</p> : null}
      {fault ? (
        <div class="verdict">
          <b>{fault.code}</b> {fault.line === undefined ? null : `at ${fault.line}`}
          {fault.column === undefined ? null : `:${fault.column}`}
          <p>
            <ForeignText text={fault.message} />
          </p>
          {fault.approval === undefined ? null : (
            <Link to={pathOf('approvals', fault.approval)} class="to">
              Review the approval request
            </Link>
          )}
        </div>
      ) : null}
      {provenance ? (
        <div class="sect">
          <h2>Where it came from</h2>
          <ProvenanceGraph provenance={provenance} />
        </div>
      ) : null}
    </div>
  );
}

interface PayloadField {
  readonly name: string;
  readonly text: string;
}

/** Returns the payload that `km script --payload` reads. A value that is valid JSON is parsed. */
function payloadOf(fields: readonly PayloadField[]): Record<string, Data> {
  const payload: Record<string, Data> = {};
  for (const { name, text } of fields) {
    if (name.trim() === '') continue;
    try {
      payload[name.trim()] = JSON.parse(text) as Data;
    } catch {
      payload[name.trim()] = text;
    }
  }
  return payload;
}

function Payload(props: {
  fields: readonly PayloadField[];
  setFields: (fields: readonly PayloadField[]) => void;
}) {
  const { fields, setFields } = props;
  const change = (at: number, part: Partial<PayloadField>) =>
    setFields(fields.map((field, index) => (index === at ? { ...field, ...part } : field)));
  return (
    <div class="payload">
      {fields.map(({ name, text }, index) => (
        <div key={index} class="field">
          <input
            type="text"
            class="short"
            aria-label={`Name of field ${index + 1}`}
            placeholder="name"
            value={name}
            onInput={(event) => change(index, { name: event.currentTarget.value })}
          />
          <input
            type="text"
            aria-label={`Value of field ${index + 1}`}
            placeholder="text or JSON"
            value={text}
            onInput={(event) => change(index, { text: event.currentTarget.value })}
          />
          <Button
            icon="x"
            class="btn only"
            aria-label={`Remove field ${index + 1}`}
            onClick={() => setFields(fields.filter((_, at) => at !== index))}
          />
        </div>
      ))}
      <Button
        text="Add a payload field"
        class="chip"
        onClick={() => setFields([...fields, { name: '', text: '' }])}
      />
    </div>
  );
}

function whyNotRun(): string | undefined {
  if (!may('approve')) return 'Your session cannot run scripts; role `approve` is required.';
  return connection.value.state === 'live' ? undefined : 'Not connected.';
}

function Script({ view }: { view: ScriptDocument }) {
  const [fields, setFields] = useState<readonly PayloadField[]>([]);
  const [run, setRun] = useState(view.run);
  const [fault, setFault] = useState<PageFault>();
  const [isBusy, setBusy] = useState(false);
  const reason = whyNotRun();
  const start = async () => {
    setBusy(true);
    const path = `scripts/${encodeURIComponent(view.id)}/run`;
    const answer = await post<ScriptDocument>(path, { payload: payloadOf(fields) });
    setBusy(false);
    setFault(answer.ok ? undefined : answer.error);
    if (answer.ok) setRun(answer.output.run);
  };
  const rows = fields.filter(({ name }) => name.trim() !== '');
  const words = rows.map(({ name, text }) => ` --payload ${shellWord(`${name.trim()}=${text}`)}`);
  return (
    <div class="script">
      <div class="script-doc">
        <Document view={view} run={run} />
      </div>
      <div class="script-side">
        <Payload fields={fields} setFields={setFields} />
        <div class="run-acts">
          <Command text={`km script ${shellWord(view.file)}${words.join('')}`} />
          <Button
            text={isBusy ? 'Running…' : 'Run'}
            class="btn go"
            disabled={isBusy || reason !== undefined}
            onClick={() => void start()}
          />
        </div>
        {reason === undefined ? null : <p class="dim">{reason}</p>}
        {fault ? <ErrorState error={fault} /> : null}
        {run ? <Effects run={run} /> : <p class="faint">No run yet. Run the script.</p>}
      </div>
    </div>
  );
}

function ScriptPane({ id }: { id: string }) {
  const { answer, again } = useResource<ScriptDocument>(`scripts/${encodeURIComponent(id)}`);
  return (
    <section class="card pane stack insp" aria-label="Script">
      <header class="bar flex">
        <Link to="/scripts" class="btn only phone-back" label="Back to the list">
          <Icon name="back" />
        </Link>
        <h1 class="cut">
          <ForeignText text={id} class="mono" />
        </h1>
      </header>
      <div class="scroll">
        {answer === undefined ? <LoadingRows /> : null}
        {answer && !answer.ok ? <ErrorState error={answer.error} again={again} /> : null}
        {answer?.ok ? <Script view={answer.output} /> : null}
      </div>
    </section>
  );
}

export function ScriptsPage() {
  const [, current] = route.value.parts;
  const { answer, again } = useResource<ScriptList>('scripts');
  const scripts = answer?.ok ? answer.output.scripts : [];
  const step = (by: number) => {
    const at = scripts.findIndex(({ id }) => id === current);
    const next = scripts[at < 0 ? 0 : Math.max(0, Math.min(scripts.length - 1, at + by))];
    if (next) go(pathOf('scripts', next.id), { replace: current !== undefined });
  };
  useKeys({
    j: { says: 'next script', run: () => step(1) },
    k: { says: 'previous script', run: () => step(-1) },
    ArrowDown: { says: 'next script', run: () => step(1) },
    ArrowUp: { says: 'previous script', run: () => step(-1) },
    Escape: { says: 'back to the list', run: () => go('/scripts') },
  });
  const Title = current === undefined ? 'h1' : 'h2';
  return (
    <main class={`two ${current === undefined ? '' : 'has-one'}`}>
      <section class="card pane stack list" aria-label="Scripts">
        <header class="bar flex">
          <Title>
            Scripts <span class="count">{scripts.length}</span>
          </Title>
        </header>
        <div class="scroll-y">
          {answer === undefined ? <LoadingRows rows={4} rowHeight={44} /> : null}
          {answer && !answer.ok ? <ErrorState error={answer.error} again={again} /> : null}
          {answer?.ok && scripts.length === 0 ? (
            <EmptyState
              title="This project has no scripts"
              hint="Add a `.mld` file, or a `.md` file with a statement."
            />
          ) : null}
          <ul class="picks">
            {scripts.map((script) => (
              <ScriptRow key={script.id} script={script} current={script.id === current} />
            ))}
          </ul>
          {answer?.ok && answer.output.has_more ? (
            <p class="faint more">More scripts exist than are listed.</p>
          ) : null}
        </div>
      </section>
      {current === undefined ? (
        <section class="card pane stack nothing">
          <EmptyState title="No script selected" command="km script FILE" />
        </section>
      ) : (
        <ScriptPane key={current} id={current} />
      )}
    </main>
  );
}
