export { askSdkModel, isSdkModel, propertyIn, type SdkModel } from './ai-sdk.ts';
export { type FileSource, putFiles } from './file-marks.ts';
export { answerOf, FOUR_TOOLS } from './four-tools.ts';
export type {
  BadArguments,
  Block,
  BrokenReply,
  FileBlock,
  Message,
  ModelReply,
  Protocol,
  Stop,
  ToolCallBlock,
  ToolDefinition,
} from './message.ts';
export {
  type FileKind,
  fileKind,
  type ProviderEndpoint,
  type ResolvedModel,
  resolveModel,
  type SdkPackage,
  tiersFor,
  withEndpoints,
  withProgramModels,
  withStandIn,
} from './models.ts';
export { formatMoney, parseMoney } from './prices/money.ts';
export {
  costOf,
  createPrices,
  type Price,
  type Prices,
  uncountedPrices,
  worstCost,
} from './prices/prices.ts';
export {
  createReader,
  type ReaderOptions,
  readReply,
  replyOf,
  type StreamReader,
} from './reader.ts';
export {
  createRequestWriter,
  createWrittenMessages,
  type RequestWriter,
  requestParameters,
  type WrittenMessages,
} from './request.ts';
export {
  answerInProcess,
  type ScriptedProvider,
  startScriptedProvider,
} from './scripted/provider.ts';
export type { ScriptedRequest } from './scripted/request.ts';
export { parseScript, type ScriptedReply } from './scripted/script.ts';
export { bytesForTokens, estimateTokens, tokenRatio, type Usage } from './usage.ts';
