import { memoryStage } from '../support/store-suite/memory-stage.ts';
import { storeSuite } from '../support/store-suite/suite.ts';

storeSuite('in memory', memoryStage());
storeSuite('in memory, with delays', memoryStage(7));
