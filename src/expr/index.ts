export { fillBody } from './body.ts';
export { type ExpandedConfig, expandEnv } from './environment.ts';
export { compileExpression, type Expression, type ExpressionOptions } from './expression.ts';
export { type ContextSchema, type UnknownPath, unknownPaths } from './known-paths.ts';
export { fillTemplate, templatePaths } from './template.ts';
