// Data and long texts as text. A long text is loaded in pieces on demand, so that the page never
// contains 5 MB unless the user asks for them.
import { useEffect, useState } from 'preact/hooks';
import type { Data, LongText } from '../../model/api.ts';
import { bytes } from '../../model/format.ts';
import type { PageAnswer, PageFault } from '../api.ts';
import { Button } from './button.tsx';
import { CopyButton } from './copy.tsx';
import { ErrorState } from './states.tsx';
import { ForeignText, MessageText } from './untrusted-text.tsx';

/** Indents complete JSON. Other text remains unchanged. */
function laidOut(text: string): string {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}

export function JsonView({ value }: { value: Data }) {
  const text = JSON.stringify(value, undefined, 2);
  return (
    <div class="json">
      <CopyButton text={text} label="Copy JSON" />
      <ForeignText text={text} class="mono" />
    </div>
  );
}

/** Shows a long text. `first` is its first piece; `load` returns the piece at an offset. */
export function PiecesView(props: {
  first: LongText;
  load: (offset: number) => Promise<PageAnswer<LongText>>;
  /** True for a text of a conversation. */
  isMessage?: boolean;
  author?: string;
  labels?: readonly string[];
}) {
  const { first, load, isMessage, author, labels } = props;
  const [text, setText] = useState(first.text);
  const [next, setNext] = useState(first.next);
  const [error, setError] = useState<PageFault>();
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    setText(first.text);
    setNext(first.next);
    setError(undefined);
  }, [first]);
  const more = async (offset: number) => {
    setBusy(true);
    const answer = await load(offset);
    setBusy(false);
    setError(answer.ok ? undefined : answer.error);
    if (!answer.ok) return;
    setText((last) => last + answer.output.text);
    setNext(answer.output.next);
  };
  return (
    <div class="json">
      <CopyButton text={text} label="Copy text" />
      {isMessage ? (
        <MessageText text={next === undefined ? laidOut(text) : text} />
      ) : (
        <ForeignText
          text={next === undefined ? laidOut(text) : text}
          class="mono"
          {...(author === undefined ? {} : { author })}
          {...(labels === undefined ? {} : { labels })}
        />
      )}
      {error ? <ErrorState error={error} /> : null}
      {next === undefined ? null : (
        <p class="pieces dim">
          {bytes(next)} of {bytes(first.bytes)}{' '}
          <Button text="Show the next piece" disabled={isBusy} onClick={() => void more(next)} />
        </p>
      )}
    </div>
  );
}
