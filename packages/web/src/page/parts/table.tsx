// A table whose first cell of each row is the heading of that row, and a list of names and values.
import type { ComponentChildren } from 'preact';

export interface TableRow {
  readonly key: string | number;
  readonly cells: readonly ComponentChildren[];
  readonly class?: string;
}

/** `columns`: the name and the class of each. A table whose columns have no names has no headings. */
export function Table(props: {
  class: string;
  columns: readonly (readonly [name: string, look?: string])[];
  rows: readonly TableRow[];
  caption?: string;
}) {
  const { columns, rows, caption } = props;
  return (
    <table class={props.class}>
      {caption === undefined ? null : <caption>{caption}</caption>}
      {columns.every(([name]) => name === '') ? null : (
        <thead>
          <tr>
            {columns.map(([name, look = '']) => (
              <th key={name} scope="col" class={look}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
      )}
      <tbody>
        {rows.map(({ key, cells: [first, ...rest], class: look = '' }) => (
          <tr key={key} class={look}>
            <th scope="row">{first}</th>
            {columns.slice(1).map(([name, look = ''], at) => (
              <td key={at} class={look} data-name={name}>
                {rest[at]}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** List of names and values. A pair without a value is left out. */
export const Facts = (props: {
  facts: readonly (readonly [name: string, value: ComponentChildren])[];
  class?: string;
}) => (
  <dl class={props.class ?? 'facts'}>
    {props.facts
      .filter(([, value]) => value !== undefined && value !== '' && value !== null)
      .map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
  </dl>
);
