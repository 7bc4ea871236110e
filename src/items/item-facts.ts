// What is shown and searched of a tool without parsing its whole file.
import { getOwn, parseYaml } from '../base/index.ts';
import { NO_VERSION, VERSION } from './item-kinds.ts';
import { lastSegment } from './item-place.ts';
import type { ItemFacts } from './knowledge.ts';
import { blankSignatureLine } from './signature-line.ts';
import { readYamlHeader } from './yaml-header.ts';

const NAMES: ReadonlySet<string> = new Set(
  'tool_id tool_type description category version'.split(' '),
);

/** Never throws; a file that cannot be read at all still has its name. */
export function toolFacts(content: string, id: string): ItemFacts {
  const source = blankSignatureLine(content);
  const header = readYamlHeader(source, NAMES);
  const value = header ? null : parseYaml(source).value;
  const field = (name: string): string => {
    const found = header ? header.get(name) : getOwn(value, name);
    return typeof found === 'string' ? found.trim() : '';
  };
  const version = field('version');
  return {
    title: lastSegment(id),
    description: field('description'),
    category: field('category'),
    tags: field('tool_type') === '' ? [] : [field('tool_type')],
    version: VERSION.test(version) ? version : NO_VERSION,
  };
}
