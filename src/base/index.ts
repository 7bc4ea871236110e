export { type Diagnostic, formatDiagnostic, hasErrors, type Severity } from './diagnostic.ts';
export { frontMatterAt, splitFrontMatter } from './front-matter.ts';
export { globProblem, literalPrefix, matchGlob } from './glob.ts';
export {
  asJson,
  canonicalJson,
  freezeJson,
  getOwn,
  isDeeperThan,
  isFrozenJson,
  isObject,
  jsonEqual,
  MAX_DEPTH,
  mergeDeep,
  parseJson,
  plainJson,
  plainText,
  setOwn,
} from './json.ts';
export {
  type Code,
  type ErrorCode,
  errnoOf,
  type Failure,
  type Fault,
  fail,
  harmless,
  heard,
  inTurn,
  type Json,
  type JsonObject,
  messageOf,
  type Outcome,
  ok,
  shielded,
  whenReady,
  withDetail,
} from './outcome.ts';
export { type Clock, packagePath, type RandomBytes, systemClock, systemRandom } from './ports.ts';
export {
  anything,
  compact,
  fillable,
  fillableText,
  flag,
  listAt,
  listOf,
  listOrOne,
  mapping,
  numberBetween,
  oneOf,
  openYaml,
  parseObject,
  parseText,
  problemsIn,
  type Rule,
  type RulePath,
  type RulePlace,
  record,
  type ShapeProblem,
  tableOf,
  text,
  textAt,
  textLike,
  textsAt,
  uniqueBy,
  wholeBetween,
  wrongType,
} from './read-shape.ts';
export { createLooks, createRecent, createRecentPairs } from './recent.ts';
export { createRedactor, type RedactionStream, type Redactor } from './redact.ts';
export { isInside, pathWithin, readRegularFile } from './regular-file.ts';
export {
  countBefore,
  createLines,
  hasHidden,
  lastSegment,
  nearest,
  onOneLine,
  type Position,
  type TextLines,
  withoutHidden,
} from './text.ts';
export { formatYaml, parseYaml } from './yaml.ts';
