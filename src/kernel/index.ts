export { type Audit, type AuditRow, auditRow, createAudit } from './audit.ts';
export { heldTo, noAuthority, policyAuthority, tokenAuthority } from './authority.ts';
export type { BuiltinFunction } from './builtin.ts';
export type {
  Authority,
  Authorize,
  Caller,
  ExecuteRequest,
  HelpRequest,
  LoadRequest,
  SearchRequest,
} from './call.ts';
export { type Plan, resolvePlan } from './chain.ts';
export { createToolRunner } from './execute-tool.ts';
export { ANSWER, FOUR_TOOLS, type VerbDefinition } from './four-tools.ts';
export type { SignalPort } from './help.ts';
export { createItemMarks } from './item-marks.ts';
export { keepOut } from './keep-out.ts';
export type { Kind } from './kind.ts';
export { checkInputs, checkOutputs, directiveKind } from './kind-directive.ts';
export { knowledgeKind } from './kind-knowledge.ts';
export { toolKind } from './kind-tool.ts';
export type { CopyPort } from './load.ts';
export { createModifier } from './modify.ts';
export { schemaOf } from './parameters.ts';
export { resolveProjectPath } from './path-gate.ts';
export { prepareDependencies } from './prepare.ts';
export type { Need, Primitive, PrimitiveCall, PrimitiveResult, Verifier } from './primitive.ts';
export { isInside } from './process-env.ts';
export type { ProcessPorts } from './process-launch.ts';
export {
  type ProgramTool,
  type ProgramTools,
  withProgramTools,
} from './program-tools.ts';
export { writeProjectFile } from './project-write.ts';
export { resolveModule } from './runtime-module.ts';
export type { SandboxReport } from './sandbox-probe.ts';
export { moduleSink, probeSandboxNow, shippedPrimitives, shippedSinks } from './shipped.ts';
export type { Sink, SinkFactory, StreamEvent } from './sink.ts';
export type { SignaturePolicy } from './tool-rights.ts';
export { createKernel, type Kernel } from './verbs.ts';
