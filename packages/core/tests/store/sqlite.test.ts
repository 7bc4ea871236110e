import { sqliteStage } from '@kernmantle/test-support/store-suite/sqlite-stage';
import { storeSuite } from '@kernmantle/test-support/store-suite/suite';

storeSuite('SQLite, commit', sqliteStage('commit'));
storeSuite('SQLite, flush', sqliteStage('flush'));
