export {
  type CompiledExpression,
  compileExpression,
  type ExpressionOptions,
} from './expression.ts';
export { type ContextSchema, type UnknownPath, unknownPaths } from './known-paths.ts';
export { fillTemplate, templatePaths } from './template.ts';
export {
  type ConfigSources,
  expandEnv,
  type FilledConfig,
  fillBody,
  fillConfig,
} from './tool-config.ts';
