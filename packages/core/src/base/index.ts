export { type Diagnostic, formatDiagnostic, hasErrors, type Severity } from './diagnostic.ts';
export { diskFault, diskReason } from './disk-fault.ts';
export { frontMatterAt, splitFrontMatter } from './front-matter.ts';
export { globProblem, literalPrefix, matchGlob } from './glob.ts';
export {
  asJson,
  canonicalJson,
  freezeJson,
  getOwn,
  isDeeperThan,
  isFiniteJson,
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
  EXIT,
  errnoOf,
  exitCodeOf,
  type Failure,
  type Fault,
  fail,
  harmless,
  isOwnCode,
  type Json,
  type JsonObject,
  messageOf,
  type Outcome,
  ok,
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
  numberAt,
  numberBetween,
  objectAt,
  oneOf,
  openYaml,
  parseObject,
  parseText,
  problemsIn,
  type ReadBy,
  type Rule,
  type RulePath,
  type RulePlace,
  readValue,
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
export {
  isInside,
  pathWithin,
  readRegularFile,
  withoutFolder,
  withoutPlaces,
} from './regular-file.ts';
export { spawn } from './spawn.ts';
export {
  countBefore,
  createLines,
  durationText,
  hasHidden,
  lastSegment,
  masked,
  nearest,
  onOneLine,
  type Position,
  shellQuote,
  shorten,
  withoutHidden,
} from './text.ts';
export { heard, inTurn, shielded, whenReady } from './when-ready.ts';
export { formatYaml, parseYaml } from './yaml.ts';
