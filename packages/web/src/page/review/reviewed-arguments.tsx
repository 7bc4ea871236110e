// Arguments exactly as the call sends them, as text, each with its labels and its origin. Long ones
// are folded. `onOpened` reports the number of folded ones.
import { useEffect, useState } from 'preact/hooks';
import type { ArgumentView, LongText } from '../../model/api.ts';
import { bytes, count } from '../../model/format.ts';
import type { PageAnswer, PageFault } from '../api.ts';
import { Button } from '../parts/button.tsx';
import { LabelChips } from '../parts/labels.tsx';
import { ErrorState } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { isFolded } from './decision.ts';

/** Returns the piece of an argument at an offset. */
export type LoadPiece = (name: string, offset: number) => Promise<PageAnswer<LongText>>;

const HEAD = 160;

/** Loads the complete text in pieces. After an error it stays folded. */
async function wholeText(
  argument: ArgumentView,
  load: LoadPiece | undefined,
): Promise<PageAnswer<string>> {
  if (!argument.is_cut) return { ok: true, output: argument.text };
  const missing = 'the rest of the argument cannot be read here; run `km approvals ls`';
  if (!load) return { ok: false, error: { code: 'unavailable', detail: { message: missing } } };
  const parts: string[] = [];
  let next: number | undefined = 0;
  while (next !== undefined) {
    const from: number = next;
    const piece: PageAnswer<LongText> = await load(argument.name, from);
    if (!piece.ok) return piece;
    parts.push(piece.output.text);
    next = piece.output.next;
    if (next !== undefined && next <= from) break;
  }
  return { ok: true, output: parts.join('') };
}

/** A line or a text that is longer is folded again after a person opens it. */
const [LONG_LINE, LONG_TEXT] = [2000, 50_000];
const TAIL = 400;

/** Shows a value, and the end of a long one again, so that its length cannot hide the end. */
function OpenedValue({ text }: { text: string }) {
  const isLong =
    text.length > LONG_TEXT || text.split('\n').some((line) => line.length > LONG_LINE);
  return (
    <>
      <ForeignText text={text} class="mono" />
      {isLong ? (
        <>
          <p class="you">
            Only a part is visible. The value has {count(text.length)} characters and ends with:
          </p>
          <ForeignText text={text.slice(-TAIL)} class="mono" />
        </>
      ) : null}
    </>
  );
}

function FoldedValue(props: {
  argument: ArgumentView;
  load: LoadPiece | undefined;
  onOpen: () => void;
}) {
  const { argument, load, onOpen } = props;
  const [text, setText] = useState<string>();
  const [error, setError] = useState<PageFault>();
  const [isBusy, setBusy] = useState(false);
  const open = async () => {
    setBusy(true);
    const whole = await wholeText(argument, load);
    setBusy(false);
    setError(whole.ok ? undefined : whole.error);
    if (!whole.ok) return;
    setText(whole.output);
    onOpen();
  };
  if (text !== undefined) return <OpenedValue text={text} />;
  return (
    <>
      <ForeignText text={argument.text.slice(0, HEAD)} class="mono" />
      <span class="faint"> …</span>
      <p>
        <Button
          text={isBusy ? 'Reading…' : `Open the whole argument (${bytes(argument.bytes)})`}
          disabled={isBusy}
          aria-expanded="false"
          onClick={() => void open()}
        />
      </p>
      {error ? <ErrorState error={error} /> : null}
    </>
  );
}

/** `onOpened` gets the number of folded arguments, also at the start. */
export function ReviewedArguments(props: {
  arguments: readonly ArgumentView[];
  load?: LoadPiece;
  onOpened?: (closed: number) => void;
}) {
  const { load, onOpened } = props;
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set<number>());
  const closed = props.arguments.filter(
    (argument, index) => isFolded(argument) && !opened.has(index),
  ).length;
  useEffect(() => onOpened?.(closed), [closed]);
  return (
    <table class="args-t">
      <tbody>
        {props.arguments.map((argument, index) => (
          <tr key={index}>
            <th scope="row">
              <ForeignText text={argument.name} />
              {argument.role === undefined || argument.role === argument.name ? null : (
                <small>{argument.role}</small>
              )}
            </th>
            <td>
              {isFolded(argument) ? (
                <FoldedValue
                  argument={argument}
                  load={load}
                  onOpen={() => setOpened((last) => new Set([...last, index]))}
                />
              ) : (
                <ForeignText text={argument.text} class="mono" />
              )}
            </td>
            <td>
              {argument.labels.length > 0 ? <LabelChips taint={argument.labels} /> : null}
              <span class={argument.labels.length > 0 ? 'origin faint' : 'label'}>
                {argument.origin}
              </span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
