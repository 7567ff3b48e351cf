// Which of these fonts the browser draws with, and which languages it has glyphs for.
async ({ fonts, samples }) => {
  await Promise.all(fonts.map((name) => document.fonts.load(`40px '${name}'`, 'Rag设').catch(() => null)));
  const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const width = (font, text) => { pen.font = `40px ${font}`; return pen.measureText(text).width; };
  const found = fonts.filter((name) => ['monospace', 'serif'].some(
    (other) => width(`'${name}',${other}`, 'Hamburgefonstiv WMil') !== width(other, 'Hamburgefonstiv WMil')));
  const drawn = (letter) => {
    pen.clearRect(0, 0, 80, 80);
    pen.font = `40px ${[...found.map((name) => `'${name}'`), 'sans-serif'].join(',')}`;
    pen.fillText(letter, 10, 60);
    return pen.getImageData(0, 0, 80, 80).data.join();
  };
  const has = ([one, other]) => drawn(one) !== drawn(other);
  return { fonts: found, languages: Object.keys(samples).filter((name) => has([...samples[name]])) };
}
