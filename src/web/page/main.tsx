import { render } from 'preact';
import { App } from './app.tsx';
import { startTheme } from './theme.ts';

startTheme();
const place = document.getElementById('page');
if (place) render(<App />, place);
