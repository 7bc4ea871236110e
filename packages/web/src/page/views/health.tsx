// Findings of `km doctor`, each with a fix to copy, and figures of the server.
import type { HealthView } from '../../model/api.ts';
import { count, seconds } from '../../model/format.ts';
import { Button } from '../parts/button.tsx';
import { Command, CopyButton } from '../parts/copy.tsx';
import { now, Time } from '../parts/figures.tsx';
import { Icon, type IconName } from '../parts/icons.tsx';
import { ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { Facts } from '../parts/table.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';

type HealthItem = HealthView['findings'][number];

const LOOKS: Readonly<Record<HealthItem['state'], readonly [IconName, string, string]>> = {
  bad: ['no', 'bad', 'to fix'],
  note: ['warn', 'you', 'note'],
  good: ['ok', 'ok', 'good'],
};
const ORDER = ['bad', 'note', 'good'] as const;

function FindingLine({ finding }: { finding: HealthItem }) {
  const { about, state, message, fix } = finding;
  const [icon, tone, word] = LOOKS[state];
  return (
    <li class={`finding is-${state}`}>
      <span class={tone}>
        <Icon name={icon} label={word} />
      </span>
      <b>{about}</b>
      <ForeignText text={message} />
      {fix === undefined ? null : (
        <span class="fix">
          <span class="faint">fix</span>
          <code>
            <ForeignText text={fix} />
          </code>
          <CopyButton text={fix} label={`Copy the fix for ${about}`} />
        </span>
      )}
    </li>
  );
}

function Server({ server }: { server: HealthView['server'] }) {
  return (
    <section class="card server-facts" aria-label="Server">
      <h2>
        Server{' '}
        <small>
          since <Time at={server.started} form="clock" />
        </small>
      </h2>
      <Facts
        class=""
        facts={[
          ['version', server.version],
          ['up', seconds(Math.round((now.value - server.started) / 1000))],
          ['threads running here', count(server.running)],
          ['pages connected', count(server.streams)],
          ['programs connected', count(server.sockets)],
          ['delay to the store', `${count(server.lag_ms)} ms`],
          ['memory', `${count(server.memory_mb)} MB`],
        ]}
      />
    </section>
  );
}

/** Summary of the findings. Errors come before warnings. */
function Verdict({ findings }: Pick<HealthView, 'findings'>) {
  const count = (which: string): number => findings.filter(({ state }) => state === which).length;
  const [wrong, open] = [count('bad'), count('note')];
  const tone = wrong > 0 ? 'bad' : open > 0 ? 'you' : 'ok';
  const words = wrong > 0 ? `${wrong} of ${findings.length} to fix` : `${open} to check`;
  return (
    <span class={`pill ${tone}`}>
      <Icon name={wrong > 0 ? 'no' : open > 0 ? 'ask' : 'ok'} />
      {wrong + open > 0 ? words : 'no problems'}
    </span>
  );
}

export function HealthPage() {
  const { answer, again } = useResource<HealthView>('health');
  const findings = answer?.ok ? answer.output.findings : [];
  return (
    <main class="page">
      <div class="head">
        <div class="title flex">
          <h1>Health</h1>
          {answer?.ok ? <Verdict findings={findings} /> : null}
        </div>
        <div class="acts">
          <Button text="Check again" onClick={again} />
        </div>
      </div>
      {answer === undefined ? <LoadingRows rows={8} rowHeight={32} /> : null}
      {answer?.ok === false ? <ErrorState error={answer.error} again={again} /> : null}
      {answer?.ok ? (
        <div class="health">
          <section class="card" aria-label="Findings">
            <ul>
              {ORDER.flatMap((state) =>
                findings
                  .filter((finding) => finding.state === state)
                  .map((finding) => (
                    <FindingLine key={finding.about + finding.message} finding={finding} />
                  )),
              )}
            </ul>
            <p class="foot faint nowrap small flex">
              <Command text="km doctor" />
            </p>
          </section>
          <Server server={answer.output.server} />
        </div>
      ) : null}
    </main>
  );
}
