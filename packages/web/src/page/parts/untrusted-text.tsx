// The only component that renders text of models, tools and files: as text nodes, with visible signs for
// everything that could hide or reorder text. It never creates a link, an image or markup.
import { useMemo, useRef, useState } from 'preact/hooks';
import { type ForeignBit, foreignBits, openedBits } from '../../model/untrusted-text.ts';
import { Button } from './button.tsx';
import { CopyButton } from './copy.tsx';
import { LabelChips } from './labels.tsx';

const NAMES: Readonly<Record<string, string>> = {
  'U+00AD': 'soft hyphen',
  'U+061C': 'Arabic letter mark',
  'U+200B': 'zero-width space',
  'U+200C': 'zero-width non-joiner',
  'U+200D': 'zero-width joiner',
  'U+200E': 'left-to-right mark',
  'U+200F': 'right-to-left mark',
  'U+202A': 'left-to-right embedding',
  'U+202B': 'right-to-left embedding',
  'U+202C': 'end of embedding',
  'U+202D': 'left-to-right override',
  'U+202E': 'right-to-left override',
  'U+2066': 'left-to-right isolate',
  'U+2067': 'right-to-left isolate',
  'U+2069': 'end of isolate',
  'U+FEFF': 'byte order mark',
};

/** `author` adds a frame that names the source of the text and its `labels`. */
export function ForeignText(props: {
  text: string;
  author?: string;
  labels?: readonly string[];
  class?: string;
}) {
  const { text, author, labels = [] } = props;
  const bits = useMemo(() => foreignBits(text), [text]);
  const body = <Bits bits={bits} class={`foreign ${props.class ?? ''}`} />;
  if (author === undefined) return body;
  return (
    <figure class="words">
      <figcaption>
        <span>{author}</span> <LabelChips taint={labels} />
        <CopyButton text={text} label={`Copy text: ${author}`} />
      </figcaption>
      {body}
    </figure>
  );
}

/** Shows the text of a message. Blocks of code and headings are set apart; all else stays as written. */
export function MessageText({ text }: { text: string }) {
  const parts = text.split(/^(```[^]*?\n```[ ]*\n?|#{1,6} .*\n?)/m);
  return (
    <>
      {parts.map((part, at) => {
        const code = /^```.*\n([^]*?)\n?```\s*$/.exec(part);
        const kind = code ? 'code' : part.startsWith('#') && at % 2 === 1 ? 'heading' : '';
        return part === '' ? null : (
          <ForeignText key={at} text={(code?.[1] ?? part).replace(/^\n+|\n+$/g, '')} class={kind} />
        );
      })}
    </>
  );
}

/** Renders one element per bit, so that a selection maps back to the original text. */
function Bits(props: { bits: readonly ForeignBit[]; class: string }) {
  const { bits } = props;
  const box = useRef<HTMLSpanElement>(null);
  const onCopy = (event: ClipboardEvent) => {
    const range = document.getSelection()?.getRangeAt(0);
    if (!range || !box.current || event.defaultPrevented) return;
    const inside =
      box.current.contains(range.startContainer) && box.current.contains(range.endContainer);
    if (!inside) return;
    event.clipboardData?.setData('text/plain', selectedSource(bits, box.current, range));
    event.preventDefault();
  };
  return (
    <span ref={box} class={props.class} {...(bits.length > 1 ? { onCopy } : {})}>
      {bits.map((bit, at) => (bit.kind === 'text' ? bit.text : <Bit key={at} bit={bit} />))}
    </span>
  );
}

/** Returns the original text: sources of signs, contents of folds. */
function selectedSource(bits: readonly ForeignBit[], box: Node, range: Range): string {
  return [...box.childNodes]
    .map((node, at) => {
      const bit = bits[at];
      if (!bit || !range.intersectsNode(node)) return '';
      if (bit.kind !== 'text') return bit.source;
      const from = node === range.startContainer ? range.startOffset : 0;
      const to = node === range.endContainer ? range.endOffset : undefined;
      return bit.source.slice(from, to);
    })
    .join('');
}

function Bit({ bit }: { bit: ForeignBit }) {
  const { kind, text } = bit;
  if (kind === 'fold' || kind === 'run') return <Fold bit={bit} />;
  if (kind === 'host') {
    return (
      <span class="sign host" title="host name with letters that are not ASCII">
        {text}
      </span>
    );
  }
  const name = kind === 'ansi' ? 'terminal control sequence' : (NAMES[text] ?? 'hidden character');
  return (
    <span class={`sign ${kind}`} title={name}>
      {text}
    </span>
  );
}

/** A folded text. It opens in place and stays open. */
function Fold({ bit }: { bit: ForeignBit }) {
  const [isOpen, setOpen] = useState(false);
  const inside = useMemo(() => (isOpen ? openedBits(bit) : []), [bit, isOpen]);
  if (isOpen) return <Bits bits={inside} class="unfolded" />;
  return <Button text={`… ${bit.text}`} class="sign fold" onClick={() => setOpen(true)} />;
}
