import { lateStage } from '@kernmantle/test-support/store-suite/late-stage';
import { sqliteStage } from '@kernmantle/test-support/store-suite/sqlite-stage';
import { storeSuite } from '@kernmantle/test-support/store-suite/suite';

storeSuite('SQLite, late answers', lateStage(7, sqliteStage('commit')));
