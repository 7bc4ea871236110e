// Checks the SQL files with the parser of PostgreSQL: the statements, the body of every function, and their form.
// `sql-formatter` does not format the bodies, which are nearly all of the text, so this script does not use it.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadModule, parsePlPgSQLSync, parseSync, scanSync } from 'libpg-query';

const FOLDER = fileURLToPath(new URL('../packages/fleet/sql/', import.meta.url));
const MAX_COLUMNS = 120;
/** Keywords for values. They are written in lower case like other values. */
const VALUES = new Set(['true', 'false']);

const textOf = (option) => option.arg.List.items.map(({ String: { sval } }) => sval).join('');

/** Returns the language of a function, and its body if the body is a text. */
function bodyOf({ options }) {
  const find = (name) => options.map(({ DefElem }) => DefElem).find((one) => one.defname === name);
  const as = find('as');
  return { language: find('language').arg.String.sval, text: as && textOf(as) };
}

/** Keywords that PostgreSQL reserves are written in capitals. */
function* smallKeywords(text) {
  for (const { keywordName, text: word } of scanSync(text).tokens) {
    if (keywordName !== 'RESERVED_KEYWORD' || VALUES.has(word)) continue;
    if (word !== word.toUpperCase()) yield `\`${word}\` is a keyword; write ${word.toUpperCase()}`;
  }
}

function* problemsIn(text) {
  const bytes = Buffer.from(text);
  for (const { stmt, stmt_location: start = 0, stmt_len: length } of parseSync(text).stmts) {
    if (!stmt.CreateFunctionStmt) continue;
    const { language, text: body } = bodyOf(stmt.CreateFunctionStmt);
    if (language === 'plpgsql') {
      parsePlPgSQLSync(bytes.subarray(start, start + (length ?? bytes.length)).toString());
    } else if (body !== undefined) parseSync(body);
    if (body !== undefined) yield* smallKeywords(body);
  }
  yield* smallKeywords(text);
  for (const [at, line] of text.split('\n').entries()) {
    if (line.length > MAX_COLUMNS) yield `line ${at + 1} has more than ${MAX_COLUMNS} columns`;
    if (/\s$|\t/.test(line)) yield `line ${at + 1} has a tab, or spaces at its end`;
  }
  if (!text.endsWith('\n') || text.endsWith('\n\n')) yield 'the file must end with one line break';
}

await loadModule();
const found = readdirSync(FOLDER).flatMap((name) => {
  try {
    return [...problemsIn(readFileSync(`${FOLDER}${name}`, 'utf8'))].map(
      (text) => `${name}: ${text}`,
    );
  } catch (error) {
    return [`${name}: ${error.message}`];
  }
});
for (const problem of found) process.stderr.write(`packages/fleet/sql/${problem}\n`);
process.exit(found.length === 0 ? 0 : 1);
