// The only way in which text of models, tools and files gets onto the page: as text nodes, with
// everything shown that could hide or turn something.
import { LabelChips } from './labels.tsx';

/** `author` puts it into a frame that says whose words they are, with their `labels`. */
export function ForeignText(props: {
  text: string;
  author?: string;
  labels?: readonly string[];
  class?: string;
}) {
  const { text, author, labels = [] } = props;
  const shown = <span class={`foreign ${props.class ?? ''}`}>{text}</span>;
  if (author === undefined) return shown;
  return (
    <figure class="words">
      <figcaption>
        {author} <LabelChips taint={labels} />
      </figcaption>
      {shown}
    </figure>
  );
}
