// Scores of the search as Sphinx has them. A section that is found by a word of docs/words.py is shown with its heading.
var Scorer = {
  score: (result) => {
    const [page, title, anchor, , score, , kind] = result;
    if (kind === "index" && anchor) {
      const { alltitles, docnames } = Search._index;
      const heading = Object.keys(alltitles).find((name) =>
        alltitles[name].some(([file, id]) => docnames[file] === page && `#${id}` === anchor));
      if (heading) result[1] = `${title} > ${heading}`;
    }
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
