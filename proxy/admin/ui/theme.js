// Light or dark: as the system says, until somebody chooses.

const NAME = "recourse-theme";

function chosen() {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
}

export function useTheme(theme = chosen()) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}

export function toggleTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const next = (chosen() ?? system) === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(NAME, next);
  } catch {
    // it holds until the page is left
  }
  useTheme(next);
}
