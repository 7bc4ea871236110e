import { sqliteStage } from '../support/store-suite/sqlite-stage.ts';
import { storeSuite } from '../support/store-suite/suite.ts';

storeSuite('SQLite, commit', sqliteStage('commit'));
storeSuite('SQLite, flush', sqliteStage('flush'));
