// View of one item: its rights and their origin, its limits and guards, its tools, its runs, and
// its file as text.
import type { ComponentChildren } from 'preact';
import type { Data, DataObject, ItemView, LongText } from '../../model/api.ts';
import { count, limitName, limitOrigin, limitValue, shellWord } from '../../model/format.ts';
import { get, type PageAnswer } from '../api.ts';
import { Button } from '../parts/button.tsx';
import { Command } from '../parts/copy.tsx';
import { Icon } from '../parts/icons.tsx';
import { PiecesView } from '../parts/json-view.tsx';
import { LabelChips } from '../parts/labels.tsx';
import { ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { Link, route, setQuery } from '../router.tsx';
import { may } from '../state/session.ts';
import {
  dataWords,
  type OriginLine,
  ownReach,
  type ReachedTool,
  readExplained,
} from './explained.ts';
import { RunForm } from './run-form.tsx';
import { SignatureMark } from './signature-mark.tsx';

function Section(props: { title: string; count?: number; children: ComponentChildren }) {
  const { title, children } = props;
  return (
    <div class="part">
      <h2>
        {title} {props.count === undefined ? null : <small>{count(props.count)}</small>}
      </h2>
      <div>{children}</div>
    </div>
  );
}

/** Renders nothing for an empty list of lines. */
function Lines(props: { title: string; lines: readonly OriginLine[]; isShort?: boolean }) {
  const { title, lines, isShort = false } = props;
  if (lines.length === 0) return null;
  return (
    <Section title={title} count={lines.length}>
      <ul class={`lines ${isShort ? 'short' : ''}`}>
        {lines.map(({ name, detail, from }, index) => (
          <li key={index}>
            <ForeignText text={name} class="mono" />
            <ForeignText text={detail} class="dim" />
            <ForeignText text={from} class="faint from" />
          </li>
        ))}
      </ul>
    </Section>
  );
}

const Words = ({ name, words }: { name: string; words: readonly string[] }) =>
  words.length === 0 ? null : (
    <span>
      <span class="faint">{name}</span> <ForeignText text={words.join(', ')} class="mono" />
    </span>
  );

function ToolLine({ tool }: { tool: ReachedTool }) {
  return (
    <li>
      <ForeignText text={tool.id} class="mono" />
      {tool.unavailable === '' ? null : <ForeignText text={tool.unavailable} class="bad" />}
      <span class={tool.effect === 'read' ? 'dim' : 'you'}>{tool.effect}</span>
      <LabelChips taint={tool.risk} />
      <Words name="hosts" words={tool.hosts} />
      <Words name="variables" words={tool.env} />
      <Words name="module" words={tool.modules} />
    </li>
  );
}

function Tools({ title, tools }: { title: string; tools: readonly ReachedTool[] }) {
  if (tools.length === 0) return null;
  return (
    <Section title={title} count={tools.length}>
      <ul class="lines tools">
        {tools.map((tool) => (
          <ToolLine key={tool.id} tool={tool} />
        ))}
      </ul>
    </Section>
  );
}

const wordIn = (data: DataObject, name: string): string => {
  const value: Data | undefined = Object.hasOwn(data, name) ? data[name] : undefined;
  return dataWords(value);
};

function Limits({ view }: { view: ItemView }) {
  if (view.limits.length === 0) return null;
  return (
    <Section title="Limits" count={view.limits.length}>
      <ul class="lines short">
        {view.limits.map(({ name, max, from = '' }) => (
          <li key={name}>
            <span>{limitName(name)}</span>
            <b>{max === undefined ? 'none' : limitValue(name, max)}</b>
            <ForeignText text={limitOrigin(from)} class="faint from" />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Runs({ view, id }: { view: ItemView; id: string }) {
  return (
    <Section title="Runs">
      <Link to={`/?directive=${encodeURIComponent(id)}`} class="to">
        {count(view.runs)} {view.runs === 1 ? 'run' : 'runs'}
      </Link>
      {view.denied > 0 ? <span class="bad">, {count(view.denied)} denied</span> : null}
    </Section>
  );
}

function Missing({ missing }: { missing: readonly string[] }) {
  if (missing.length === 0) return null;
  return (
    <Section title="Cannot run">
      <ul class="lines">
        {missing.map((text) => (
          <li key={text}>
            <ForeignText text={text} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function Parts({ kind, id, view }: { kind: string; id: string; view: ItemView }) {
  const about = readExplained(view.explained);
  const isTool = kind === 'tool';
  const load = async (offset: number): Promise<PageAnswer<LongText>> => {
    const path = `items/${encodeURIComponent(kind)}/${encodeURIComponent(id)}?offset=${offset}`;
    const answer = await get<ItemView>(path);
    if (!answer.ok) return answer;
    return { ok: true, output: answer.output.body ?? { text: '', bytes: 0, offset } };
  };
  return (
    <>
      <Missing missing={view.missing} />
      {kind === 'directive' ? <Lines title="Rights" lines={about.grants} isShort /> : null}
      <Lines title="Problems" lines={about.problems} />
      <Lines title="Ceilings" lines={about.ceilings} />
      <Limits view={view} />
      <Lines title="Hooks" lines={about.hooks} />
      <Lines title="Guards" lines={about.guards} />
      <Lines title="Rules" lines={about.rules} />
      <Tools
        title={isTool ? 'Reaches' : 'Tools'}
        tools={isTool ? [ownReach(view.explained)] : about.tools}
      />
      {isTool ? <Lines title="Allowed callers" lines={about.surfaces} /> : null}
      {about.requires.length > 0 ? (
        <Section title="Requires">
          <ForeignText text={about.requires.join(', ')} class="mono" />
        </Section>
      ) : null}
      {about.chain.length > 0 ? (
        <Section title="Chain">
          <ForeignText text={about.chain.join(' → ')} class="mono" />
        </Section>
      ) : null}
      {view.steps.length > 0 ? (
        <Section title="Process" count={view.steps.length}>
          <ol class="steps">
            {view.steps.map((step, index) => (
              <li key={index}>
                <ForeignText text={step} />
              </li>
            ))}
          </ol>
        </Section>
      ) : null}
      {kind === 'directive' ? <Runs view={view} id={id} /> : null}
      {view.body ? (
        <Section title="File">
          {view.file === undefined ? null : <ForeignText text={view.file} class="mono faint" />}
          <PiecesView first={view.body} load={load} author="current file" />
        </Section>
      ) : null}
    </>
  );
}

export function ItemPane({ kind, id }: { kind: string; id: string }) {
  const path = `items/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`;
  const { answer, again } = useResource<ItemView>(path);
  const isRunning = route.value.query.get('run') === '1';
  const view = answer?.ok ? answer.output : undefined;
  const canRun = view?.can_run === true && kind === 'directive';
  return (
    <section class="card pane stack insp item" aria-label="Item">
      <header class="bar flex">
        <Link to="/items" class="btn only phone-back" label="Back to the list">
          <Icon name="back" />
        </Link>
        <h1 class="cut">
          <ForeignText text={id} />
          <span class="ver">{view ? wordIn(view.item, 'version') : ''}</span>
        </h1>
        {view ? <SignatureMark signature={view.signature} /> : null}
        <span class="faint">{view ? wordIn(view.item, 'source') : ''}</span>
        {canRun ? (
          <Button
            text="Run…"
            class="btn go"
            disabled={!may('steer')}
            title={may('steer') ? '' : 'your session has the role `view`; role `steer` is required'}
            aria-expanded={isRunning}
            onClick={() => setQuery({ run: isRunning ? undefined : '1' })}
          />
        ) : null}
      </header>
      <div class="scroll">
        {answer === undefined ? <LoadingRows /> : null}
        {answer && !answer.ok ? <ErrorState error={answer.error} again={again} /> : null}
        {view && isRunning && canRun ? (
          <RunForm directive={id} view={view} onClose={() => setQuery({ run: undefined })} />
        ) : null}
        {view ? <Parts kind={kind} id={id} view={view} /> : null}
      </div>
      {kind === 'knowledge' ? null : (
        <div class="foot faint nowrap small flex">
          <Command text={`km explain ${shellWord(kind)} ${shellWord(id)}`} />
        </div>
      )}
    </section>
  );
}
