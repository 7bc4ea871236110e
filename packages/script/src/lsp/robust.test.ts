// For any text and position, a request returns a range inside of the text, or nothing.
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { completeAt } from './completion.ts';
import { definitionAt } from './definition.ts';
import { findingsOf } from './diagnostics.ts';
import { createDocument } from './document.ts';
import { hoverAt } from './hover.ts';
import { createModules } from './modules.ts';
import { viewOf } from './view.ts';

const PIECES =
  `var exe for when guard let import from as @x @y.z @mx. @f( ) [ ] { } => = | || . " ' \` :: ::: {{ }}
  <a.md> <directive name="a" version="1.0.0"> <metadata> <process> <script> </script> </directive> <
  /show /var secret, op: before >> 1 true "./m.mld" show`.split(/[ \n]+/);

const text = fc
  .array(fc.oneof(fc.constantFrom(...PIECES, '\n', ' ', '\r\n'), fc.string({ maxLength: 4 })), {
    maxLength: 60,
  })
  .map((parts) => parts.join(''));
const file = fc.constantFrom('/p/a.mld', '/p/a.md', '/p/.ai/directives/a.md', '/p/a.yaml');

test('any text can be asked about at any place', () => {
  const modules = createModules('/h', () => 'var @a = 1');
  fc.assert(
    fc.property(text, file, fc.nat(), (content, name, number) => {
      const view = viewOf(content, name);
      const offset = number % (content.length + 1);
      const found = [
        hoverAt(view, offset, modules),
        completeAt(view, offset, modules),
        definitionAt(view, offset, modules),
      ];
      for (const { at, end = at } of found.filter((one) => one !== undefined) as {
        at: number;
        end?: number;
      }[]) {
        expect(at).toBeGreaterThanOrEqual(0);
        expect(end).toBeGreaterThanOrEqual(at);
      }
      const document = createDocument('file:///p/a', content, 1);
      for (const { range } of findingsOf(view, document, modules)) {
        expect(document.offsetAt(range.end)).toBeGreaterThanOrEqual(document.offsetAt(range.start));
      }
    }),
    { numRuns: runs(1500) },
  );
});
