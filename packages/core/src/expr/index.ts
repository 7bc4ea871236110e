export { type CompiledExpression, compileExpression } from './expression.ts';
export {
  type Compared,
  type ContextSchema,
  comparisonsIn,
  unknownPaths,
  unknownValues,
} from './known-paths.ts';
export { fillTemplate, templatePaths } from './template.ts';
export { expandEnv, fillBody, fillConfig } from './tool-config.ts';
