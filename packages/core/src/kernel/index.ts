export type { Authority, Caller, Kind } from './call.ts';
export {
  fileIdentity,
  previewProjectWrite,
  refusesWriting,
  writeProjectFile,
} from './file-tools/project-write.ts';
export type { StreamedBody } from './http/request.ts';
export { createKernel, type EmbeddedKernel, type Kernel, type Verb } from './kernel.ts';
export type { Handles, Primitive, PrimitiveCall, PrimitiveResult, Verifier } from './primitive.ts';
export type { StandardSchema } from './primitives/program-arguments.ts';
export {
  PROGRAM,
  type ProgramTool,
  readProgramTools,
  type TypedTool,
  withProgramItems,
} from './primitives/program-tools.ts';
export {
  lazyPrimitive,
  moduleSink,
  openFetch,
  openLocalFetch,
  probeSandboxNow,
  shippedPrimitives,
  shippedSinks,
  startResident as startKept,
} from './primitives/shipped.ts';
export type { ProcessPorts } from './process/environment.ts';
export type { ResidentProcess as KeptProcess } from './process/kept-process.ts';
export { resolveModule } from './process/module.ts';
export {
  type Audit,
  type AuditFilter,
  type AuditRow,
  auditRow,
  callTarget,
  createAudit,
  exemptionsIn,
  forwardAudit,
  isOfUser,
  withUserAudit,
} from './rights/audit.ts';
export {
  policyAuthority,
  readOnly,
  restrictTo,
  tokenAuthority,
  underPolicies,
  verifierOf,
} from './rights/authority.ts';
export { createKeepOut, isClosed, isProtectedPath as isKeptPlace } from './rights/closed-places.ts';
export { createItemMarks } from './rights/item-marks.ts';
export { isProtectedFolder as isHeldFolder, resolveProjectPath } from './rights/project-path.ts';
export type { SandboxReport } from './sandbox/plan.ts';
export type { EventFilter, StreamEvent } from './sink.ts';
export { checkConfig } from './tool/check-config.ts';
export { checkParameters, hasPatterns, validate } from './tool/parameters.ts';
export { readsOf } from './tool/plan.ts';
export { watchProcess } from './tool/run-primitive.ts';
export { createToolPreparer, previewTool, type ToolPorts } from './tool/run-tool.ts';
export { createToolLines, type FormedBody, type ToolLine } from './tool/tool-line.ts';
export type { SignaturePolicy } from './tool/tool-rights.ts';
export {
  functionSchema,
  parameterWords,
  signatureOf,
  type ToolSignature,
} from './tool/tool-signature.ts';
export {
  checkInputs,
  checkOutputs,
  directiveKind,
  fillForm,
  readyForm,
} from './verbs/execute-directive.ts';
export { knowledgeKind, toolKind } from './verbs/kinds.ts';
export { createModifier } from './verbs/modify.ts';
