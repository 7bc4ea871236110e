export {
  type CompiledExpression,
  compileExpression,
} from './expression.ts';
export { type ContextSchema, unknownPaths } from './known-paths.ts';
export { fillTemplate, templatePaths } from './template.ts';
export {
  expandEnv,
  fillBody,
  fillConfig,
} from './tool-config.ts';
