// Form for a message to the model: before its next turn, or instead of the current reply. An ended
// thread takes it as a follow-up and resumes.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ThreadView } from '../../model/api.ts';
import { money, shellWord } from '../../model/format.ts';
import { PASTE, uploadAll } from '../api.ts';
import { Command } from '../parts/copy.tsx';
import { FilePicker, onFiles } from '../parts/file-picker.tsx';
import { Icon } from '../parts/icons.tsx';
import { may } from '../state/session.ts';
import { commandOf } from './commands.ts';
import { isEndedStatus } from './header.tsx';
import type { Acting } from './thread-actions.ts';

type When = 'next' | 'now';
type Voice = 'user' | 'system';

function Choices(props: {
  view: ThreadView;
  acting: Acting;
  voice: Voice;
  when: When;
  currency: string;
  onVoice: (voice: Voice) => void;
  onWhen: (when: When) => void;
}) {
  const { view, acting, voice, when, currency } = props;
  const why = acting.why('interrupt');
  const { worst_turn: worst } = view;
  const costs =
    worst === undefined ? '' : `, at most ${money(worst)} ${currency} for one more turn`;
  const radio = (name: string, is: boolean, text: string, run: () => void, title?: string) => (
    <label class="check">
      <input type="radio" name={name} checked={is} disabled={title !== undefined} onChange={run} />
      <span {...(title === undefined ? {} : { title })}>{text}</span>
    </label>
  );
  return (
    <>
      <fieldset>
        <legend class="unseen">Role of the message</legend>
        {radio('voice', voice === 'user', 'as a user', () => props.onVoice('user'))}
        {radio(
          'voice',
          voice === 'system',
          'as a system message',
          () => props.onVoice('system'),
          when === 'now' ? 'an interruption sends a user message' : undefined,
        )}
      </fieldset>
      <fieldset>
        <legend class="unseen">When</legend>
        {radio('when', when === 'next', 'add it before the next turn', () => props.onWhen('next'))}
        {radio(
          'when',
          when === 'now',
          `interrupt now: the current reply is charged and dropped${costs}`,
          () => props.onWhen('now'),
          why,
        )}
      </fieldset>
    </>
  );
}

export function Composer(props: {
  view: ThreadView;
  acting: Acting;
  currency: string;
  onClose: () => void;
  onRaise: () => void;
}) {
  const { view, acting, currency, onClose } = props;
  const { id, status } = view.thread;
  const isEnded = isEndedStatus(status);
  const isChat = view.thread.runner === 'chat';
  const [text, setText] = useState('');
  const [voice, setVoice] = useState<Voice>('user');
  const [when, setWhen] = useState<When>('next');
  const [files, setFiles] = useState<readonly File[]>([]);
  const [fault, setFault] = useState<string>();
  const [isPending, setPending] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const act = isEnded ? 'resume' : when === 'now' ? 'interrupt' : 'inject';
  const words = shellWord(text === '' ? '…' : text);
  const rest = isEnded
    ? ` --message ${words}`
    : `${act === 'inject' && voice === 'system' ? ' --role system' : ''} ${words}`;
  const command = commandOf(act, id, rest);
  const [why, isBusy] = [acting.why(act), acting.isBusy(act)];
  const canSend = text.trim() !== '' && why === undefined && !isBusy;
  const send = async () => {
    // A line of a chat that is sent during the last event of a reply goes when the page knows the end.
    if (!canSend) return setPending(isChat && may('steer') && text.trim() !== '');
    const sent = await uploadAll(isEnded ? files : []);
    setFault(sent.ok ? undefined : sent.error.detail.message);
    if (!sent.ok) return;
    const body = isEnded
      ? { message: text, ...sent.output }
      : act === 'interrupt'
        ? { text }
        : { text, role: voice };
    const answer = await acting.send(act, body, command);
    if (!answer.ok) return;
    // In a chat the field stays open for the next line.
    if (isChat) {
      setText('');
      setFiles([]);
    } else onClose();
  };
  useEffect(() => {
    if (!isPending || !canSend) return;
    setPending(false);
    void send();
  }, [isPending, canSend]);
  const add = (more: readonly File[]) => {
    if (isEnded) setFiles([...files, ...more]);
    else setFault('a file or a long paste can be sent when the reply is complete');
  };
  /** A long paste goes with the message as a file. It is read, and never counts as said. */
  const paste = (event: ClipboardEvent) => {
    const pasted = event.clipboardData?.getData('text/plain') ?? '';
    const isLong = pasted.length > 400 || pasted.trimEnd().split('\n').length > 3;
    if (!isChat || !isLong) return;
    event.preventDefault();
    add([new File([pasted], `pasted-${files.length + 1}.txt`, { type: PASTE })]);
  };
  return (
    <form
      class="card composer stack"
      aria-label="Message"
      {...onFiles(add)}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <textarea
        ref={field}
        class="field"
        rows={isChat ? 2 : 3}
        aria-label={isEnded ? 'Follow-up' : 'Message to the model'}
        placeholder={isEnded ? 'follow-up message' : 'message to the model'}
        value={text}
        onPaste={paste}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setPending(false);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Escape') onClose();
          const isSent = event.ctrlKey || event.metaKey || (isChat && !event.shiftKey);
          if (event.key !== 'Enter' || !isSent || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      {isEnded ? <FilePicker files={files} onChange={setFiles} /> : null}
      {fault === undefined ? null : <p class="bad">{fault}</p>}
      {isChat && status !== 'limit' ? null : isEnded ? (
        <p class="dim">
          The thread resumes with this message and its current limits.{' '}
          {status === 'limit' ? (
            <button type="button" class="more-link" onClick={props.onRaise}>
              Raise the limit that it reached
            </button>
          ) : null}
        </p>
      ) : (
        <Choices
          view={view}
          acting={acting}
          voice={voice}
          when={when}
          currency={currency}
          onVoice={setVoice}
          onWhen={(next) => {
            setWhen(next);
            if (next === 'now') setVoice('user');
          }}
        />
      )}
      <footer>
        <Command text={command} />
        {why === undefined ? null : <span class="you">{why}</span>}
        {isChat ? null : (
          <button type="button" class="btn" onClick={onClose}>
            Cancel
          </button>
        )}
        <button type="submit" class="btn go" disabled={!canSend} aria-busy={isBusy || isPending}>
          <Icon name="say" />{' '}
          {isBusy || isPending ? 'Sending…' : isEnded && !isChat ? 'Follow up' : 'Send'}
        </button>
      </footer>
    </form>
  );
}
