// Exports the functions and types of `evals` for other packages.
export { type Cases, readCases } from './cases.ts';
export { countRuns, type RunFigures, totalsOf } from './counts.ts';
export { evaluate } from './evaluate.ts';
export type { TraceLine } from './lines.ts';
export { type Metadata, readMetadata } from './metadata.ts';
export { type EvaluationPart, inHalves, inOrder, runElsewhere } from './other-process.ts';
export { MODES } from './play.ts';
export { rename } from './renaming.ts';
export { VARIANTS } from './variants.ts';
