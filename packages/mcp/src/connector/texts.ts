// What a server writes is read by people and by models. Signs that nobody sees are taken out of what is
// shown, and said; words that speak to a model instead of about a tool are said too.
import { withoutHidden } from '@kernmantle/core/base';

/** For eyes and models: without what cannot be seen, no longer than `max`. */
export function shownText(text: string, max: number): string {
  const seen = withoutHidden(text);
  return seen.length > max ? `${seen.slice(0, max)} …` : seen;
}

/** Only a hint to a person: words cannot be judged by words. */
const SPOKEN_TO_MODELS: readonly RegExp[] = [
  /\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|instructions?|rules?)\b/is,
  /\b(?:system prompt|developer message|jailbreak)\b/i,
  /<\/?(?:important|system|instructions?|secret|assistant|user)\b[^>]*>/i,
  /\b(?:do not|don't|never)\b.{0,30}\b(?:tell|mention|reveal|inform|show)\b.{0,30}\buser\b/is,
  /\b(?:before|after|instead of|whenever)\b.{0,40}\b(?:using|calling|use|call)\b.{0,40}\btools?\b/is,
  /\byou (?:must|should|have to|are required to)\b.{0,80}\b(?:read|send|include|pass|call|upload)\b/is,
  /(?:~\/|\/)\.(?:ssh|aws|env|config|netrc)\b|\bid_rsa\b/i,
];

export const speaksToModels = (text: string): boolean =>
  SPOKEN_TO_MODELS.some((pattern) => pattern.test(withoutHidden(text)));
