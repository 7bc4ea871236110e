export type {
  BadArguments,
  Block,
  Broken,
  Message,
  ModelReply,
  Protocol,
  Stop,
  TextBlock,
  ThinkingBlock,
  ToolCallBlock,
  ToolResultBlock,
} from './message.ts';
export { type ResolvedModel, resolveModel } from './models.ts';
export { formatMoney, parseMoney } from './money.ts';
export { costOf, type Price, worstCost } from './price.ts';
export { createPrices, type PricePorts, type Prices } from './prices.ts';
export { estimateTokens, tokenRatio, type Usage } from './usage.ts';
