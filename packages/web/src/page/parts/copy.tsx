// Text to copy: an equivalent command of the terminal, an id, an address. The clipboard gets the
// exact text, even if the page shows it in another form.
import { useEffect, useState } from 'preact/hooks';
import { Icon } from './icons.tsx';

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Shows for a moment that the text was copied, or that the browser does not allow it. */
export function CopyButton(props: { text: string; label?: string; keyName?: string }) {
  const { text, label = 'Copy', keyName } = props;
  const [state, setState] = useState<'' | 'copied' | 'not allowed'>('');
  useEffect(() => {
    if (state === '') return undefined;
    const timer = setTimeout(() => setState(''), 1500);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => setState((await copyText(text)) ? 'copied' : 'not allowed');
  return (
    <button type="button" class="copy" aria-label={label} onClick={() => void copy()}>
      <Icon name={state === 'copied' ? 'ok' : 'copy'} />
      <span role="status">{state}</span>
      {keyName === undefined || state !== '' ? null : <kbd>{keyName}</kbd>}
    </button>
  );
}

/** A command line with a copy button. The caller quotes untrusted words in `text`. */
export function Command(props: { text: string; keyName?: string }) {
  const { text, keyName } = props;
  return (
    <span class="command">
      <code class="cut" title={text}>
        {text}
      </code>
      <CopyButton
        text={text}
        label="Copy command"
        {...(keyName === undefined ? {} : { keyName })}
      />
    </span>
  );
}
