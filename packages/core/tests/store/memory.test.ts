import { memoryStage } from '@kernmantle/test-support/store-suite/memory-stage';
import { storeSuite } from '@kernmantle/test-support/store-suite/suite';

storeSuite('in memory', memoryStage());
storeSuite('in memory, with delays', memoryStage(7));
