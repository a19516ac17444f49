# SPDX-License-Identifier: Apache-2.0
"""Writes sklearn.zip: models of tables of scikit-learn, LightGBM and XGBoost.

pip install -e . scikit-learn skl2onnx onnxmltools lightgbm xgboost-cpu onnxruntime
python tests/zoo/export_sklearn.py
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import lightgbm
import numpy as np
import onnxmltools
import skl2onnx
import sklearn
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as MlFloat
from skl2onnx.common.data_types import FloatTensorType
from sklearn import (
    ensemble,
    gaussian_process,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.mixture import GaussianMixture
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from vdla.verification.zoo.archive import FOLDER, Entry, Input, Writer, onnxruntime_outputs

ROWS, FEATURES, OPSET = 5, 6, 15


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, a class of three, and a number."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, FEATURES)).astype(np.float32)
    score = x[:, 0] + x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(120)
    return x, np.digitize(score, (-0.6, 0.6)), score.astype(np.float32)


def estimators() -> Iterator[tuple[str, object, str]]:
    """Name, estimator, what it learns: classes, two classes, a number or nothing."""
    forest = {"n_estimators": 8, "max_depth": 4, "random_state": 0}
    yield from (
        ("tree", tree.DecisionTreeClassifier(max_depth=5, random_state=0), "classes"),
        ("tree_regressor", tree.DecisionTreeRegressor(max_depth=5, random_state=0), "number"),
        ("forest", ensemble.RandomForestClassifier(**forest), "classes"),
        ("forest_two_classes", ensemble.RandomForestClassifier(**forest), "two"),
        ("forest_regressor", ensemble.RandomForestRegressor(**forest), "number"),
        ("extra_trees", ensemble.ExtraTreesClassifier(**forest), "classes"),
        ("extra_trees_regressor", ensemble.ExtraTreesRegressor(**forest), "number"),
        ("boosting", ensemble.GradientBoostingClassifier(n_estimators=6, random_state=0), "classes"),
        ("boosting_two_classes", ensemble.GradientBoostingClassifier(n_estimators=6, random_state=0), "two"),
        ("boosting_regressor", ensemble.GradientBoostingRegressor(n_estimators=6, random_state=0), "number"),
        ("histogram_boosting", ensemble.HistGradientBoostingClassifier(max_iter=6, random_state=0), "classes"),
        ("histogram_boosting_regressor", ensemble.HistGradientBoostingRegressor(max_iter=6, random_state=0), "number"),
        ("ada_boost", ensemble.AdaBoostClassifier(n_estimators=4, random_state=0), "classes"),
        ("bagging", ensemble.BaggingClassifier(n_estimators=4, random_state=0), "classes"),
        (
            "voting",
            ensemble.VotingClassifier(
                [("a", linear_model.LogisticRegression()), ("b", naive_bayes.GaussianNB())],
                voting="soft",
                flatten_transform=False,
            ),
            "classes",
        ),
        (
            "stacking",
            ensemble.StackingClassifier(
                [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(max_depth=3))], cv=2
            ),
            "classes",
        ),
        ("isolation_forest", ensemble.IsolationForest(n_estimators=6, random_state=0), "nothing"),
        ("logistic", linear_model.LogisticRegression(), "classes"),
        ("logistic_two_classes", linear_model.LogisticRegression(), "two"),
        ("perceptron", linear_model.Perceptron(), "classes"),
        ("descent", linear_model.SGDClassifier(loss="log_loss", random_state=0), "classes"),
        ("ridge_classifier", linear_model.RidgeClassifier(), "classes"),
        ("linear", linear_model.LinearRegression(), "number"),
        ("ridge", linear_model.Ridge(), "number"),
        ("lasso", linear_model.Lasso(0.01), "number"),
        ("huber", linear_model.HuberRegressor(), "number"),
        ("poisson", linear_model.TweedieRegressor(power=0), "number"),
        ("svc", svm.SVC(probability=False), "classes"),
        ("svc_two_classes", svm.SVC(kernel="poly", degree=2), "two"),
        ("svc_linear", svm.LinearSVC(), "classes"),
        ("svr", svm.SVR(), "number"),
        ("svr_sigmoid", svm.SVR(kernel="sigmoid"), "number"),
        ("one_class_svm", svm.OneClassSVM(), "nothing"),
        ("bayes", naive_bayes.GaussianNB(), "classes"),
        ("bernoulli", naive_bayes.BernoulliNB(), "classes"),
        ("neighbours", neighbors.KNeighborsClassifier(3), "classes"),
        ("neighbours_regressor", neighbors.KNeighborsRegressor(3), "number"),
        ("perceptrons", neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=50, random_state=0), "classes"),
        (
            "perceptrons_regressor",
            neural_network.MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", max_iter=50, random_state=0),
            "number",
        ),
        ("gaussian_process", gaussian_process.GaussianProcessRegressor(), "number"),
        ("gaussian_mixture", GaussianMixture(2, random_state=0), "nothing"),
        ("linear_discriminant", LinearDiscriminantAnalysis(), "classes"),
        ("quadratic_discriminant", QuadraticDiscriminantAnalysis(), "classes"),
        ("one_against_rest", OneVsRestClassifier(linear_model.LogisticRegression()), "classes"),
        (
            "scaled_logistic",
            make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()),
            "classes",
        ),
        ("range_scaled_svc", make_pipeline(preprocessing.MinMaxScaler(), svm.LinearSVC()), "classes"),
        ("robust_ridge", make_pipeline(preprocessing.RobustScaler(), linear_model.Ridge()), "number"),
        (
            "normalised_logistic",
            make_pipeline(preprocessing.Normalizer(), linear_model.LogisticRegression()),
            "classes",
        ),
        ("components_tree", make_pipeline(PCA(3), tree.DecisionTreeClassifier(max_depth=3)), "classes"),
        ("reduced_linear", make_pipeline(TruncatedSVD(3, random_state=0), linear_model.LinearRegression()), "number"),
        (
            "polynomial_linear",
            make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.LinearRegression()),
            "number",
        ),
        (
            "binned_logistic",
            make_pipeline(preprocessing.KBinsDiscretizer(3, encode="onehot-dense"), linear_model.LogisticRegression()),
            "classes",
        ),
        ("binarised_bayes", make_pipeline(preprocessing.Binarizer(), naive_bayes.BernoulliNB()), "classes"),
        ("power_linear", make_pipeline(preprocessing.PowerTransformer(), linear_model.LinearRegression()), "number"),
        ("selected_forest", make_pipeline(SelectKBest(k=3), ensemble.RandomForestClassifier(**forest)), "classes"),
        (
            "imputed_boosting",
            make_pipeline(SimpleImputer(), ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0)),
            "number",
        ),
        (
            "columns",
            make_pipeline(
                ColumnTransformer(
                    [("a", preprocessing.StandardScaler(), [0, 1, 2]), ("b", preprocessing.MaxAbsScaler(), [3, 4])]
                ),
                linear_model.LogisticRegression(),
            ),
            "classes",
        ),
    )


def boosted() -> Iterator[tuple[str, object, str]]:
    """Models of the two other libraries."""
    small = {"n_estimators": 8, "max_depth": 4, "random_state": 0, "verbosity": -1}
    yield "lightgbm", lightgbm.LGBMClassifier(**small), "classes"
    yield "lightgbm_two_classes", lightgbm.LGBMClassifier(**small), "two"
    yield "lightgbm_regressor", lightgbm.LGBMRegressor(**small), "number"
    yield (
        "lightgbm_forest",
        lightgbm.LGBMRegressor(**small, boosting_type="rf", bagging_freq=1, bagging_fraction=0.8),
        "number",
    )
    yield "lightgbm_poisson", lightgbm.LGBMRegressor(**small, objective="quantile"), "number"
    some = {"n_estimators": 8, "max_depth": 4, "random_state": 0}
    yield "xgboost", xgboost.XGBClassifier(**some), "classes"
    yield "xgboost_two_classes", xgboost.XGBClassifier(**some), "two"
    yield "xgboost_regressor", xgboost.XGBRegressor(**some), "number"
    yield "xgboost_logistic", xgboost.XGBRegressor(**some, objective="reg:pseudohubererror"), "number"
    yield "xgboost_forest", xgboost.XGBRFRegressor(**some), "number"


def converted(estimator: object) -> tuple[bytes, str]:
    """The model and who wrote it."""
    kind = [("x", MlFloat([None, FEATURES]))]
    if type(estimator).__module__.startswith("lightgbm"):
        made = onnxmltools.convert_lightgbm(estimator, initial_types=kind, target_opset=OPSET, zipmap=False)
        return made.SerializeToString(), f"onnxmltools {onnxmltools.__version__}, lightgbm {lightgbm.__version__}"
    if type(estimator).__module__.startswith("xgboost"):
        made = onnxmltools.convert_xgboost(estimator, initial_types=kind, target_opset=OPSET)
        return made.SerializeToString(), f"onnxmltools {onnxmltools.__version__}, xgboost {xgboost.__version__}"
    types = [("x", FloatTensorType([None, FEATURES]))]
    for options in ({id(estimator): {"zipmap": False}}, None):
        try:
            made = skl2onnx.to_onnx(
                estimator, initial_types=types, target_opset={"": OPSET, "ai.onnx.ml": 3}, options=options
            )
            break
        except NameError:  # the estimator has no such option
            continue
    return made.SerializeToString(), f"skl2onnx {skl2onnx.__version__}, scikit-learn {sklearn.__version__}"


def main() -> None:
    warnings.simplefilter("ignore")
    writer = Writer(FOLDER / "sklearn.zip")
    x, classes, number = data()
    targets = {"classes": (classes,), "two": (classes > 0,), "number": (number,), "nothing": ()}
    for name, estimator, target in (*estimators(), *boosted()):
        with writer.attempt(name):
            y = tuple(value.astype(int) if target == "two" else value for value in targets[target])
            estimator.fit(x, *y)
            content, exporter = converted(estimator)
            entry = Entry(f"table_{name}", "table", exporter, OPSET, (Input("x", "float32", (ROWS, FEATURES)),))
            writer.add(entry, content, onnxruntime_outputs(content, entry.draw()))
    print(writer.write())


if __name__ == "__main__":
    main()
