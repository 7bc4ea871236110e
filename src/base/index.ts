export { type Diagnostic, formatDiagnostic, hasErrors, type Severity } from './diagnostic.ts';
export { freezeJson, growJson, isFrozenJson, jsonText } from './frozen-json.ts';
export { globProblem, literalPrefix, matchGlob } from './glob.ts';
export {
  canonicalJson,
  getOwn,
  isDeeperThan,
  isObject,
  jsonEqual,
  MAX_DEPTH,
  mergeDeep,
  parseJson,
  plainText,
  setOwn,
} from './json.ts';
export {
  type ErrorCode,
  type Failure,
  type Fault,
  fail,
  type Json,
  type JsonObject,
  type KnownCode,
  type Outcome,
  ok,
  withDetail,
} from './outcome.ts';
export { packagePath } from './package-path.ts';
export { type Clock, type RandomBytes, systemClock, systemRandom } from './ports.ts';
export { type FileBytes, type FileProblem, readRegularFile } from './regular-file.ts';
export { nearest } from './suggest.ts';
export { caret, createLines, type Position, type TextLines } from './text.ts';
export { formatYaml, parseYaml, type YamlDocument, type YamlProblem } from './yaml.ts';
