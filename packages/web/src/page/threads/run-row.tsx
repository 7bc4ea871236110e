// One line of the list: actor, status, use of limits, refusals, duration, and the current activity
// or the reason of the end.
import { Component } from 'preact';
import type { ListedRun } from '../../model/api.ts';
import { isUnserved, NO_WORKER, SERVE_IT, workerName } from '../../model/fleet.ts';
import { ago, count, limitValue, money, seconds } from '../../model/format.ts';
import { nextAct, type ThreadLine, waitsForPerson } from '../../model/thread-lines.ts';
import { visibleText } from '../../model/untrusted-text.ts';
import { Button } from '../parts/button.tsx';
import { MeterBar, now, Time } from '../parts/figures.tsx';
import { Icon } from '../parts/icons.tsx';
import { statusIcon, statusTone, statusWord, TroubleCount } from '../parts/status.tsx';
import { Link, pathOf } from '../router.tsx';
import { unserved } from '../state/fleet.ts';

type RunLine = Extract<ThreadLine, { kind: 'thread' }>;

export const GroupCells = (props: {
  line: Extract<ThreadLine, { kind: 'group' }>;
  total?: number;
}) => (
  <span role="gridcell" class={props.line.group === 'waits for you' ? 'you' : ''}>
    <b>{props.line.group}</b> <span class="count">{count(props.total ?? props.line.threads)}</span>
  </span>
);

/** Shows `5/12` with its bar, or only the number without a limit. */
function Used({ run, name, word }: { run: ListedRun; name: 'turns' | 'spend'; word: string }) {
  const meter = run.meters.find((one) => one.name === name);
  const amount = run.cost[name];
  const used = meter?.used ?? Number(amount ?? 0);
  const about = name === 'spend' && run.cost['estimated'] === true ? 'about ' : '';
  return (
    <span role="gridcell" class={`used nowrap small ${name}`}>
      <span class="n">
        {about}
        {name === 'spend' ? money(used) : count(used)}
        <span class="faint">
          {meter?.max === undefined ? '' : `/${limitValue(name, meter.max)}`} {word}
        </span>
      </span>
      {meter?.max === undefined ? null : <MeterBar meter={meter} />}
    </span>
  );
}

/** Duration of a thread that has not ended, or the age of its end. */
function When({ run }: { run: ListedRun }) {
  if (run.ended !== undefined) {
    const took = seconds(Math.round((run.ended - run.created) / 1000));
    return (
      <span role="gridcell" class="d when">
        <Time at={run.ended} took={took} /> <span class="faint">ago</span>
      </span>
    );
  }
  return (
    <span role="gridcell" class="d when" title={`started ${ago(now.value - run.created)} ago`}>
      {seconds(Math.round((now.value - run.created) / 1000))}
    </span>
  );
}

function Now({ run }: { run: ListedRun }) {
  const act = nextAct(run.status);
  const isYours = waitsForPerson(run);
  const text = run.now ?? run.reason ?? run.code ?? '';
  if (isUnserved(run, unserved.value)) {
    return (
      <span role="gridcell" class="now">
        <span class="cut you" title={SERVE_IT}>
          {NO_WORKER}
        </span>
      </span>
    );
  }
  return (
    <span role="gridcell" class="now">
      <span class={`cut ${isYours ? 'you' : 'dim'} ${run.now === undefined ? '' : 'mono'}`}>
        {visibleText(text, 160)}
      </span>
      {run.worker === undefined ? null : (
        <span class="faint cut worker" title={`lease owner: ${visibleText(run.worker, 160)}`}>
          {visibleText(workerName(run.worker), 40)}
        </span>
      )}
      {act === undefined ? null : (
        <Link to={pathOf('t', run.id)} class="act" label={`${act} ${run.directive}`}>
          {act}
        </Link>
      )}
    </span>
  );
}

interface RunCellsProps {
  readonly line: RunLine;
  readonly run: ListedRun;
  readonly currency: string;
  onFold(): void;
}

/** Renders again only if its thread or its position has changed, because one frame can move many rows. */
export class RunCells extends Component<RunCellsProps> {
  override shouldComponentUpdate({ line, run }: RunCellsProps): boolean {
    const { line: was, run: ran } = this.props;
    return (
      run !== ran ||
      line.depth !== was.depth ||
      line.below !== was.below ||
      line.isFolded !== was.isFolded
    );
  }
  override render() {
    return <Cells {...this.props} />;
  }
}

function Cells({ line, run, currency, onFold }: RunCellsProps) {
  const isYours = waitsForPerson(run);
  const tone = statusTone(run.status, isYours, run);
  return (
    <>
      <span role="gridcell" class="w">
        {line.below > 0 ? (
          <Button
            icon={line.isFolded ? 'right' : 'chev'}
            class="fold-tree"
            tabIndex={-1}
            aria-expanded={!line.isFolded}
            aria-label={`Fold or unfold ${line.below} below ${run.directive}`}
            onClick={(event) => {
              event.stopPropagation();
              onFold();
            }}
          />
        ) : null}
        {line.depth > 0 && line.below === 0 ? <Icon name="child" class="faint" /> : null}
        <span class={tone}>
          <Icon name={run.kind === 'hook' ? 'hook' : statusIcon(run.status, isYours, run)} />
        </span>
        <Link to={pathOf('t', run.id)} class="cut name">
          {visibleText(run.directive, 80)}
        </Link>
        <span class="faint ver">{run.version}</span>
        {run.title === undefined ? null : (
          <span class="about" title={visibleText(run.title, 80)}>
            <span class="cut">{visibleText(run.title, 80)}</span>
          </span>
        )}
        {line.isFolded ? <span class="count">{count(line.below)}</span> : null}
      </span>
      <span role="gridcell" class={`status ${tone}`}>
        {isYours ? 'waits for you' : statusWord(run.status)}
      </span>
      <Used run={run} name="turns" word="turns" />
      <Used run={run} name="spend" word={currency} />
      <span role="gridcell" class="refused">
        <TroubleCount denied={run.denied} failed={run.failed} />
      </span>
      <When run={run} />
      <Now run={run} />
    </>
  );
}
